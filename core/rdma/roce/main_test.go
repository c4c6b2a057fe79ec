package roce

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// insideEnv marks the test process that runs in a network namespace of its own.
const insideEnv = "ROCE_TEST_NETNS"

// TestMain runs the tests in a new network namespace, where nobody else uses port 4791 and
// interfaces can be made; each worker of a fuzz test gets another one. Where the kernel allows none,
// the tests run where they are.
func TestMain(m *testing.M) {
	want := "test"
	var extra []*os.File
	if slices.Contains(os.Args, "-test.fuzzworker") {
		want = "worker"
		extra = []*os.File{os.NewFile(3, "to the worker"), os.NewFile(4, "from the worker")}
	}
	if os.Getenv(insideEnv) == want {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "bring up loopback:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the parent-death signal follows the thread
	cmd := inside(want, extra)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	}
	fmt.Fprintln(os.Stderr, "no network namespace, testing in the present one:", err)
	os.Exit(m.Run())
}

// inside is the command that runs this program in a namespace of its own.
func inside(mark string, extra []*os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, extra
	cmd.Env = append(os.Environ(), insideEnv+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// inNamespace skips a test that needs interfaces of its own.
func inNamespace(t testing.TB) {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		t.Skip("the kernel allows no network namespace")
	}
}
