package launcher

import (
	"fmt"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data.
const (
	offCall = 0
	offArch = 4
)

// Known tells whether this machine has a system call.
func Known(call string) bool {
	a, err := arch.GetInfo("")
	if err != nil {
		return false
	}
	_, ok := a.SyscallNames[call]
	return ok
}

// filter makes system calls fail, for this thread and whatever it executes.
func filter(deny []string) error {
	if len(deny) == 0 {
		return nil
	}
	a, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(program(a, deny))
	if err != nil {
		return err
	}
	return install(raw)
}

// program denies the named calls with EPERM, and all calls of another calling convention (32 bit, x32) with ENOSYS: they
// have other numbers. A name that this architecture does not have denies nothing.
func program(a *arch.Info, deny []string) []bpf.Instruction {
	refuse := func(errno unix.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(a.ID), SkipTrue: 1},
		refuse(unix.ENOSYS),
		bpf.LoadAbsolute{Off: offCall, Size: 4},
	}
	if a.ID == arch.X86_64.ID {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(arch.X32.SeccompMask), SkipFalse: 1},
			refuse(unix.ENOSYS))
	}
	for _, name := range deny {
		if nr, ok := a.SyscallNames[name]; ok {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(nr), SkipFalse: 1}, refuse(unix.EPERM))
		}
	}
	return append(p, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

func sizeError(n int) error { return fmt.Errorf("a filter of %d instructions is too long", n) }
