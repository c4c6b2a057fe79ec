package uring

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's sizes, checked when the package is compiled.
var (
	_ [120 - unsafe.Sizeof(params{})]struct{}
	_ [unsafe.Sizeof(params{}) - 120]struct{}
	_ [sqeSize - unsafe.Sizeof(sqe{})]struct{}
	_ [unsafe.Sizeof(sqe{}) - sqeSize]struct{}
	_ [cqeSize - unsafe.Sizeof(cqe{})]struct{}
	_ [unsafe.Sizeof(cqe{}) - cqeSize]struct{}
)

// queues is the memory shared with the kernel.
type queues struct {
	fd              int
	sqMem, cqMem    []byte
	sqeMem          []byte
	sqTail, sqHead  *atomic.Uint32
	cqTail, cqHead  *atomic.Uint32
	sqMask, cqMask  uint32
	sqArray         []uint32
	sqes            []sqe
	cqes            []cqe
	entries, filled uint32
	tail            uint32
}

// setup makes a ring of at least entries submission slots. Its error says that io_uring cannot be had here.
func setup(entries uint32) (*queues, error) {
	var p params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	q := &queues{fd: int(fd), entries: p.sqEntries}
	if err := q.checkOps(); err != nil {
		q.close()
		return nil, err
	}
	if err := q.mmap(&p); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// checkOps asks the kernel whether it knows every operation in use.
func (q *queues) checkOps() error {
	var pr probe
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(q.fd), registerProbe,
		uintptr(unsafe.Pointer(&pr)), uintptr(len(pr.ops)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("io_uring_register probe", errno)
	}
	for _, op := range []uint8{opNop, opFsync, opRead, opWrite} {
		if op > pr.lastOp || pr.ops[op].flags&opSupported == 0 {
			return fmt.Errorf("the kernel's io_uring lacks operation %d", op)
		}
	}
	return nil
}

func (q *queues) mmap(p *params) (err error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	sqLen := int(p.sqOff.array + p.sqEntries*4)
	cqLen := int(p.cqOff.cqes + p.cqEntries*cqeSize)
	if p.features&featSingleMmap != 0 {
		sqLen = max(sqLen, cqLen)
	}
	if q.sqMem, err = unix.Mmap(q.fd, offSQRing, sqLen, prot, flags); err != nil {
		return os.NewSyscallError("mmap of the submission ring", err)
	}
	cq := q.sqMem
	if p.features&featSingleMmap == 0 {
		if q.cqMem, err = unix.Mmap(q.fd, offCQRing, cqLen, prot, flags); err != nil {
			return os.NewSyscallError("mmap of the completion ring", err)
		}
		cq = q.cqMem
	}
	if q.sqeMem, err = unix.Mmap(q.fd, offSQEs, int(p.sqEntries*sqeSize), prot, flags); err != nil {
		return os.NewSyscallError("mmap of the submission entries", err)
	}
	q.sqHead, q.sqTail = word(q.sqMem, p.sqOff.head), word(q.sqMem, p.sqOff.tail)
	q.cqHead, q.cqTail = word(cq, p.cqOff.head), word(cq, p.cqOff.tail)
	q.sqMask, q.cqMask = word(q.sqMem, p.sqOff.ringMask).Load(), word(cq, p.cqOff.ringMask).Load()
	q.sqArray = unsafe.Slice((*uint32)(unsafe.Pointer(&q.sqMem[p.sqOff.array])), p.sqEntries)
	q.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&q.sqeMem[0])), p.sqEntries)
	q.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&cq[p.cqOff.cqes])), p.cqEntries)
	return nil
}

func word(mem []byte, off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&mem[off])) }

// registerEvent makes the kernel signal eventfd at each completion.
func (q *queues) registerEvent(eventfd int) error {
	n := int32(eventfd)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(q.fd), registerEventfd, uintptr(unsafe.Pointer(&n)), 1, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("io_uring_register eventfd", errno)
	}
	return nil
}

// push adds an entry; the caller makes sure that there is room. p must stay alive and in place until the completion.
func (q *queues) push(e sqe, p []byte) {
	if len(p) > 0 {
		e.addr = uint64(uintptr(unsafe.Pointer(&p[0])))
		e.len = uint32(len(p))
	}
	i := q.tail & q.sqMask
	q.sqes[i] = e
	q.sqArray[i] = i
	q.tail++
	q.filled++
}

// enter hands the pushed entries to the kernel without waiting.
func (q *queues) enter() error {
	q.sqTail.Store(q.tail)
	for q.filled > 0 {
		n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(q.fd), uintptr(q.filled), 0, 0, 0, 0)
		switch errno {
		case 0:
			q.filled -= uint32(n)
		case unix.EINTR:
		case unix.EAGAIN, unix.EBUSY:
			return errno
		default:
			return os.NewSyscallError("io_uring_enter", errno)
		}
	}
	return nil
}

// pop takes the oldest completion.
func (q *queues) pop() (c cqe, ok bool) {
	head := q.cqHead.Load()
	if head == q.cqTail.Load() {
		return cqe{}, false
	}
	c = q.cqes[head&q.cqMask]
	q.cqHead.Store(head + 1)
	return c, true
}

func (q *queues) empty() bool { return q.cqHead.Load() == q.cqTail.Load() }

func (q *queues) close() {
	for _, m := range [][]byte{q.sqMem, q.cqMem, q.sqeMem} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	unix.Close(q.fd)
}
