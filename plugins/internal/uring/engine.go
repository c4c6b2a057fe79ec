package uring

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Engine does requests on one descriptor. It is a backstore.Engine.
type Engine struct {
	fd    int
	size  int64
	code  func(error) backstore.Code
	q     *queues
	slots []slot
	free  []uint32
}

// slot is a request in the kernel's hands.
type slot struct {
	req     backstore.Request
	moved   int
	refused backstore.Code // CodeOK: it is not
}

// Probe returns why io_uring cannot be had on this system, or nil.
func Probe() error {
	q, err := setup(1)
	if err != nil {
		return err
	}
	q.close()
	return nil
}

// New makes an engine with room for depth requests on the first size bytes of fd, whose completions the kernel announces
// on the eventfd wake. fd and wake stay the caller's. code, most often Code, tells what a request's error means; it does not
// block.
func New(fd int, size int64, wake, depth int, code func(error) backstore.Code) (*Engine, error) {
	q, err := setup(uint32(depth))
	if err != nil {
		return nil, err
	}
	if err := q.registerEvent(wake); err != nil {
		q.close()
		return nil, err
	}
	e := &Engine{fd: fd, size: size, code: code, q: q, slots: make([]slot, depth)}
	for i := range e.slots {
		e.free = append(e.free, uint32(i))
	}
	return e, nil
}

// Submit implements backstore.Engine.
func (e *Engine) Submit(reqs []backstore.Request) {
	for _, r := range reqs {
		i := e.free[len(e.free)-1]
		e.free = e.free[:len(e.free)-1]
		e.slots[i] = slot{req: r}
		e.push(i)
	}
	e.enter()
}

// push queues what is left to do of slot i.
func (e *Engine) push(i uint32) {
	s := &e.slots[i]
	entry := sqe{fd: int32(e.fd), off: uint64(s.req.Off) + uint64(s.moved), userData: uint64(i)}
	switch {
	case s.req.Op == backstore.OpFlush:
		e.q.push(sqe{opcode: opFsync, fd: int32(e.fd), opFlags: fsyncDatasync, userData: uint64(i)}, nil)
		return
	case e.refuses(s):
		e.q.push(sqe{opcode: opNop, userData: uint64(i)}, nil) // the answer comes as all others do
		return
	case s.req.Op == backstore.OpRead:
		entry.opcode = opRead
	default:
		entry.opcode = opWrite
		if s.req.Flags&backstore.FUA != 0 {
			entry.opFlags = rwfDsync
		}
	}
	e.q.push(entry, s.req.Data[s.moved:])
}

// refuses notes the answer to what no host asks for: a write outside would make a file longer.
func (e *Engine) refuses(s *slot) bool {
	if s.req.Op != backstore.OpRead && s.req.Op != backstore.OpWrite {
		s.refused = backstore.CodeNotSupported
	} else if s.req.Off < 0 || s.req.Off > e.size-int64(len(s.req.Data)) {
		s.refused = backstore.CodeRange
	}
	return s.refused != backstore.CodeOK
}

// enter submits. If the kernel is short of memory Poll tries again after the next completion; if none is to come, enter
// does.
func (e *Engine) enter() {
	for {
		err := e.q.enter()
		switch {
		case err == nil:
			return
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY):
			// The ring is broken: nothing can be completed truthfully any more. The host sees the
			// process die and starts another.
			panic(fmt.Sprintf("io_uring: %v", err))
		case len(e.slots)-len(e.free) > int(e.q.filled) || !e.q.empty():
			return
		}
		runtime.Gosched()
	}
}

// Poll implements backstore.Engine. It also restarts short transfers.
func (e *Engine) Poll(res []backstore.Result) int {
	n := 0
	for n < len(res) {
		c, ok := e.q.pop()
		if !ok {
			break
		}
		i := uint32(c.userData)
		s := &e.slots[i]
		if e.again(s, c.res) {
			e.push(i)
			continue
		}
		res[n] = backstore.Result{Tag: s.req.Tag, Code: e.result(s, c.res)}
		n++
		*s = slot{}
		e.free = append(e.free, i)
	}
	if e.q.filled > 0 {
		e.enter()
	}
	return n
}

// Ended tells whether Poll has something to do.
func (e *Engine) Ended() bool { return !e.q.empty() }

// again tells whether the request goes back to the kernel: it was interrupted, or moved only a part.
func (e *Engine) again(s *slot, res int32) bool {
	if res == -int32(unix.EINTR) || res == -int32(unix.EAGAIN) {
		return true
	}
	if res <= 0 || s.req.Op == backstore.OpFlush || s.refused != backstore.CodeOK {
		return false
	}
	s.moved += int(res)
	return s.moved < len(s.req.Data)
}

// result tells how the request of s ended.
func (e *Engine) result(s *slot, res int32) backstore.Code {
	switch {
	case s.refused != backstore.CodeOK:
		return s.refused
	case res < 0:
		return e.code(unix.Errno(-res))
	case s.moved < len(s.req.Data):
		return e.code(io.ErrUnexpectedEOF) // the file is shorter than the store
	}
	return backstore.CodeOK
}

// Code tells the backstore's code for an error of a system call.
func Code(err error) backstore.Code {
	switch {
	case err == nil:
		return backstore.CodeOK
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return backstore.CodeNoSpace
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EBADF), errors.Is(err, unix.EPERM):
		return backstore.CodeReadOnly
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return backstore.CodeUnavailable
	}
	return backstore.CodeIO
}

// Close ends the engine. Every request has ended.
func (e *Engine) Close() error {
	e.q.close()
	return nil
}
