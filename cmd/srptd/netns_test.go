package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// insideEnv marks a test process that runs one test in a network namespace of its own. Its value is the directory of the binaries.
const insideEnv = "GOSRPT_TEST_NETNS"

// newNamespace makes a command start in a network namespace of its own, which has a loopback interface that is down and no other.
func newNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

// refused tells whether the kernel allows no namespace.
func refused(err error) bool { return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) }

// inNamespace runs the test t, alone, in a process of its own with a network namespace of its own, and returns false there where that
// process was started from. It skips where the kernel allows no namespace.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		if err := setUp("lo"); err != nil {
			t.Fatal(err)
		}
		return true
	}
	executable(t, "backstore-file")
	runtime.LockOSThread() // the parent-death signal follows the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()), "-test.timeout=15m")
	cmd.Env = append(os.Environ(), insideEnv+"="+binaries.dir)
	newNamespace(cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err := cmd.CombinedOutput()
	switch {
	case refused(err):
		t.Skip("the kernel allows no network namespace")
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("the test did not run:\n%s", out)
	default:
		t.Logf("in a namespace of its own:\n%s", out)
	}
	return false
}

func setUp(nic string) error {
	l, err := netlink.LinkByName(nic)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}
