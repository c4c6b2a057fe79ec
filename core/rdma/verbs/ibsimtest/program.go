package ibsimtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds each wait: what takes the simulation a second takes a busy machine much longer.
const Patience = 60 * time.Second

// Program is a running process whose output is kept. It ends with the test.
type Program struct {
	*testing.T
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu    sync.Mutex
	said  strings.Builder
	lines chan string // those that answer Ask
	ended chan struct{}
}

// start starts a program.
func start(t *testing.T, name string, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{T: t, name: name, cmd: cmd, lines: make(chan string, 1), ended: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	w.Close()
	go p.read(r)
	t.Cleanup(p.cleanup)
	return p
}

func (p *Program) read(r io.ReadCloser) {
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

// Output is what it has said so far, answers left out.
func (p *Program) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *Program) cleanup() {
	p.Kill()
	if p.Failed() {
		out := p.Output()
		p.Logf("%s said:\n%s", p.name, out[max(0, len(out)-10000):])
	}
}

// Kill ends it at once.
func (p *Program) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		_ = p.cmd.Wait() // killed
	}
}

// Signal sends it a signal.
func (p *Program) Signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// Stopped tells whether a signal has stopped it.
func (p *Program) Stopped() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err == nil && strings.Contains(string(b), ") T ")
}

// Write gives it a line.
func (p *Program) Write(t *testing.T, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// Ask gives it a line and reads the answer into v.
func (p *Program) Ask(t *testing.T, v any, format string, args ...any) {
	t.Helper()
	p.Write(t, format, args...)
	select {
	case line := <-p.lines:
		if err := json.Unmarshal([]byte(line), v); err != nil {
			t.Fatalf("%s: %v in %q", p.name, err, line)
		}
	case <-p.ended:
		t.Fatalf("%s ended: %s", p.name, p.Output())
	case <-time.After(Patience):
		t.Fatalf("%s does not answer %q", p.name, format)
	}
}

// Says waits until it has said something.
func (p *Program) Says(t *testing.T, what string) {
	t.Helper()
	WaitUntil(t, fmt.Sprintf("%s says %q", p.name, what), func() bool { return strings.Contains(p.Output(), what) })
}

// WaitUntil waits for something to become true.
func WaitUntil(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
