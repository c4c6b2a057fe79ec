package roce

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's layout of struct mmsghdr and struct iovec on 64-bit machines.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(unix.Mmsghdr{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(unix.Iovec{})-16]
)

// recvmmsg receives into m without blocking and returns how many messages came. Everything that m
// points to is in the Go heap and reachable through it, and the heap does not move.
func recvmmsg(fd int, m []unix.Mmsghdr) (int, unix.Errno) {
	n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	afterReceive()
	return int(n), unix.Errno(e)
}

// sendmmsg sends m without blocking and returns how many messages went. An error is that of the
// first message.
func sendmmsg(fd int, m []unix.Mmsghdr) (int, unix.Errno) {
	beforeSend()
	n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), unix.Errno(e)
}
