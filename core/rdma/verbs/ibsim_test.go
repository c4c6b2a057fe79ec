//go:build verbs

package verbs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A subnet simulated by Debian's ibsim, with Debian's opensm as its subnet manager: three adapters on a switch. A process takes part
// through a library that is loaded before libibumad's C library and gives it the files of one adapter.
//
//	H0  a subnet manager    H1  our agent    H2  an initiator that asks, and another subnet manager
//
// The product's code on H1 and H2 is that of real adapters but for the wait (libcFile).
const topology = `Switch 8 "S0"
[1] "H0"[1]
[2] "H1"[1]
[3] "H2"[1]

Hca 1 "H0"
[1] "S0"[1]

Hca 1 "H1"
[1] "S0"[2]

Hca 1 "H2"
[1] "S0"[3]
`

// patience bounds each wait: what takes the simulation a second takes a busy machine much longer.
const patience = 60 * time.Second

// program is a running process whose output is kept.
type program struct {
	*testing.T
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu    sync.Mutex
	said  strings.Builder
	lines chan string // those that answer ask
	ended chan struct{}
}

// answer begins the lines that answer ask.
const answer = "answer "

// runProgram starts a program in a directory of its own, where it may leave what it likes. It ends with the test.
func runProgram(t *testing.T, name string, env []string, argv ...string) *program {
	t.Helper()
	p := &program{T: t, name: name, cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	w.Close()
	go p.read(r)
	t.Cleanup(p.cleanup)
	return p
}

func (p *program) read(r io.ReadCloser) {
	defer close(p.ended)
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		if a, ok := strings.CutPrefix(s.Text(), answer); ok {
			p.lines <- a
			continue
		}
		p.mu.Lock()
		p.said.WriteString(s.Text() + "\n")
		p.mu.Unlock()
	}
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *program) cleanup() {
	p.kill()
	if p.Failed() {
		out := p.output()
		p.Logf("%s said:\n%s", p.name, out[max(0, len(out)-10000):])
	}
}

// kill ends it at once.
func (p *program) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		_ = p.cmd.Wait() // killed
	}
}

// signal sends it a signal.
func (p *program) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// stopped tells whether a signal has stopped it.
func (p *program) stopped() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err == nil && strings.Contains(string(b), ") T ")
}

// write gives it a line.
func (p *program) write(t *testing.T, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// ask gives it a line and reads the answer into v.
func (p *program) ask(t *testing.T, v any, format string, args ...any) {
	t.Helper()
	p.write(t, format, args...)
	select {
	case line := <-p.lines:
		if err := json.Unmarshal([]byte(line), v); err != nil {
			t.Fatalf("%s: %v in %q", p.name, err, line)
		}
	case <-p.ended:
		t.Fatalf("%s ended: %s", p.name, p.output())
	case <-time.After(patience):
		t.Fatalf("%s does not answer %q", p.name, format)
	}
}

// says waits until it has said something.
func (p *program) says(t *testing.T, what string) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("%s says %q", p.name, what), func() bool { return strings.Contains(p.output(), what) })
}

// waitUntil waits for something to become true.
func waitUntil(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// subnet is the simulation.
type subnet struct {
	*testing.T
	preload, socket string
	sim             *program
}

// newSubnet starts a simulation under a name of its own. It is skipped where its programs are not installed.
func newSubnet(t *testing.T) *subnet {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it runs a subnet manager, which takes its time")
	}
	for _, name := range []string{"ibsim", "opensm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: make deps installs it", err)
		}
	}
	found, err := filepath.Glob("/usr/lib*/*/umad2sim/libumad2sim.so")
	if err != nil || len(found) == 0 {
		t.Skip("there is no libumad2sim.so, which comes with ibsim: make deps installs it")
	}
	net := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(net, []byte(topology), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &subnet{T: t, preload: found[0], socket: fmt.Sprintf("gosrpt-%d-%d", os.Getpid(), time.Now().UnixNano())}
	s.sim = runProgram(t, "ibsim", []string{"IBSIM_SOCKNAME=" + s.socket}, "ibsim", "-s", net)
	s.sim.says(t, "Network simulator ready")
	return s
}

// start starts a program on a node.
func (s *subnet) start(node, name string, env []string, argv ...string) *program {
	s.Helper()
	env = append(env, "IBSIM_SOCKNAME="+s.socket, "SIM_HOST="+node, "LD_PRELOAD="+s.preload)
	return runProgram(s.T, name+" on "+node, env, argv...)
}

// smConfig is a subnet manager that is to be started.
type smConfig struct {
	node     string
	priority int
	// lids are given to port GUIDs, whatever they have.
	lids map[string]int
}

// manager starts a subnet manager, which remembers nothing of an earlier one.
func (s *subnet) manager(m smConfig) *program {
	s.Helper()
	dir := s.TempDir()
	conf := fmt.Sprintf("sm_priority %d\nsweep_interval 1\nsminfo_polling_timeout 500\npolling_retry_number 2\nforce_log_flush TRUE\n", m.priority)
	var lids strings.Builder
	for guid, lid := range m.lids {
		fmt.Fprintf(&lids, "0x%s 0x%04x 0x%04x\n\n", guid, lid, lid)
		conf += "honor_guid2lid_file TRUE\n"
	}
	for name, text := range map[string]string{"conf": conf, "guid2lid": lids.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	s.Cleanup(func() {
		if b, err := os.ReadFile(log); err == nil && s.Failed() {
			s.Logf("log of opensm on %s:\n%s", m.node, b[max(0, len(b)-10000):])
		}
	})
	return s.start(m.node, "opensm", []string{"OSM_CACHE_DIR=" + dir, "OSM_TMP_DIR=" + dir},
		"opensm", "-F", filepath.Join(dir, "conf"), "-f", log, "--console", "off")
}

// role starts this program as one of roles.
func (s *subnet) role(node, role string, env ...string) *program {
	s.Helper()
	return s.start(node, role, append(env, roleEnv+"="+role), "/proc/self/exe", "-test.run=^TestProcessOfANode$")
}
