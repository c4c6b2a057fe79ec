package launcher

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

// verdict runs a filter. The interpreter reads big-endian words, as the network has them.
func verdict(t *testing.T, p []bpf.Instruction, call, machine uint32) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(p)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offCall:], call)
	binary.BigEndian.PutUint32(data[offArch:], machine)
	v, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(v)
}

func TestFilterDeniesByNameOnEveryArchitecture(t *testing.T) {
	const allow, eperm, enosys = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	for _, a := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		p := program(a, append(isolation.PluginProfile(), "no-such-call"))
		number := func(name string) uint32 {
			n, ok := a.SyscallNames[name]
			if !ok {
				t.Fatalf("%s has no %s", a.Name, name)
			}
			return uint32(n)
		}
		for _, name := range isolation.PluginProfile() {
			n, ok := a.SyscallNames[name]
			if !ok {
				continue // iopl and its like
			}
			if v := verdict(t, p, uint32(n), uint32(a.ID)); v != eperm {
				t.Errorf("%s %s: %#x", a.Name, name, v)
			}
		}
		for _, name := range []string{"read", "io_uring_setup", "io_uring_enter", "io_uring_register", "execve", "clone", "mmap", "ioctl", "flock", "memfd_create"} {
			if v := verdict(t, p, number(name), uint32(a.ID)); v != allow {
				t.Errorf("%s %s: %#x", a.Name, name, v)
			}
		}
		// The numbers of another calling convention are others: int 0x80, x32.
		if v := verdict(t, p, number("read"), uint32(arch.I386.ID)); v != enosys {
			t.Errorf("%s: 32-bit calls: %#x", a.Name, v)
		}
	}
	x32 := program(arch.X86_64, []string{"mount"})
	if v := verdict(t, x32, uint32(arch.X32.SeccompMask)|165, uint32(arch.X86_64.ID)); v != enosys {
		t.Errorf("x32 calls: %#x", v)
	}
}

func TestEveryNameOfTheProfileIsASystemCallSomewhere(t *testing.T) {
	for _, name := range isolation.PluginProfile() {
		if _, ok := arch.X86_64.SyscallNames[name]; !ok {
			t.Errorf("%s is misspelled, or too new for the table", name)
		}
	}
}
