package launcher

import (
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// maxFilter is the kernel's BPF_MAXINSNS.
const maxFilter = 4096

// install makes a program this thread's filter.
func install(raw []bpf.RawInstruction) error {
	if len(raw) == 0 || len(raw) > maxFilter {
		return sizeError(len(raw))
	}
	ins := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		ins[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(ins)), Filter: &ins[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(ins)
	if errno != 0 {
		return errno
	}
	return nil
}
