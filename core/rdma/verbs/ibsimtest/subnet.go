package ibsimtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// topology is three adapters on a switch, and one without a cable.
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

Hca 1 "H3"
`

// Subnet is the simulation.
type Subnet struct {
	*testing.T
	// Sim takes commands, such as Unlink "H1"[1].
	Sim             *Program
	preload, socket string
}

// New starts a simulation under a name of its own. It is skipped where its programs are not installed.
func New(t *testing.T) *Subnet {
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
	s := &Subnet{T: t, preload: found[0], socket: fmt.Sprintf("gosrpt-%d-%d", os.Getpid(), time.Now().UnixNano())}
	cmd := exec.Command("ibsim", "-s", net)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "IBSIM_SOCKNAME="+s.socket)
	s.Sim = start(t, "ibsim", cmd)
	s.Sim.Says(t, "Network simulator ready")
	return s
}

// Command is a program on a node, with its arguments. It has a directory of its own, where it may leave what it likes: the
// simulation leaves its tables there if it is killed.
func (s *Subnet) Command(node string, argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = s.TempDir()
	c.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.socket, "SIM_HOST="+node, "LD_PRELOAD="+s.preload)
	return c
}
