package main

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
)

// tried are the system calls of the key try, and their first argument; the others are zero. They do no harm where they are
// permitted.
var tried = map[string]struct{ nr, arg uintptr }{
	"ptrace": {unix.SYS_PTRACE, unix.PTRACE_DETACH}, "mount": {unix.SYS_MOUNT, 0}, "bpf": {unix.SYS_BPF, ^uintptr(0)},
	"setns": {unix.SYS_SETNS, ^uintptr(0)}, "getppid": {unix.SYS_GETPPID, 0},
	"io_uring_setup": {unix.SYS_IO_URING_SETUP, 0}, "getpid": {unix.SYS_GETPID, 0},
}

// try makes each call and tells its outcomes, as "mount=operation not permitted getpid=0".
func try(calls string) (string, error) {
	var out []string
	for name := range strings.SplitSeq(calls, ",") {
		call, ok := tried[name]
		if !ok {
			return "", fmt.Errorf("no such call: %s", name)
		}
		_, _, errno := unix.RawSyscall6(call.nr, call.arg, 0, 0, 0, 0, 0)
		text := errno.Error()
		if errno == 0 {
			text = "done"
		}
		out = append(out, name+"="+text)
	}
	return strings.Join(out, " "), nil
}

// serveMajors speaks other major versions of the protocol, as plugins of other times do. What it serves is of no use.
func serveMajors(majors []string) {
	m := map[int]func(grpc.ServiceRegistrar){}
	for _, s := range majors {
		n, err := strconv.Atoi(s)
		if err != nil {
			panic(err)
		}
		m[n] = func(grpc.ServiceRegistrar) {}
	}
	bridge.ServeMajors(m)
}
