package uring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Engine does requests on one descriptor. Submit and Close follow backstore.Submitter.
type Engine struct {
	fd      int
	eventFD int
	event   *os.File // eventFD, in Go's poller
	raw     syscall.RawConn
	end     chan struct{}

	closing atomic.Bool

	mu      sync.Mutex // guards all below; held for memory operations and io_uring_enter, which does not wait
	q       *queues
	slots   []slot
	free    []uint32
	backlog []pending
}

// slot is a request in the kernel's hands.
type slot struct {
	pending
	moved int
}

type pending struct {
	req  backstore.Request
	done func(backstore.Result)
}

// New makes an engine with room for depth requests in the kernel; more wait inside the engine. Its error says
// that io_uring cannot be had on this system.
func New(fd, depth int) (*Engine, error) {
	q, err := setup(uint32(depth))
	if err != nil {
		return nil, err
	}
	efd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		q.close()
		return nil, os.NewSyscallError("eventfd", err)
	}
	e := &Engine{fd: fd, eventFD: efd, event: os.NewFile(uintptr(efd), "io_uring completions"), q: q, end: make(chan struct{})}
	if err = q.registerEvent(efd); err == nil {
		e.raw, err = e.event.SyscallConn()
	}
	if err != nil {
		e.event.Close()
		q.close()
		return nil, err
	}
	e.slots = make([]slot, q.entries)
	for i := range e.slots {
		e.free = append(e.free, uint32(i))
	}
	go e.reap()
	return e, nil
}

// Submit implements backstore.Submitter.
func (e *Engine) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range reqs {
		p := pending{r, done}
		if len(e.free) == 0 || len(e.backlog) > 0 {
			e.backlog = append(e.backlog, p)
			continue
		}
		e.start(p)
	}
	e.enter()
}

func (e *Engine) start(p pending) {
	i := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	e.slots[i] = slot{pending: p}
	e.push(i)
}

// push queues what is left to do of slot i.
func (e *Engine) push(i uint32) {
	s := &e.slots[i]
	entry := sqe{fd: int32(e.fd), off: uint64(s.req.Off) + uint64(s.moved), userData: uint64(i)}
	switch s.req.Op {
	case backstore.OpRead:
		entry.opcode = opRead
	case backstore.OpWrite:
		entry.opcode = opWrite
		if s.req.Flags&backstore.FUA != 0 {
			entry.opFlags = rwfDsync
		}
	case backstore.OpFlush:
		entry = sqe{opcode: opFsync, fd: int32(e.fd), opFlags: fsyncDatasync, userData: uint64(i)}
	}
	e.q.push(entry, s.req.Data[s.moved:])
}

// enter submits. If the kernel is short of memory the reaper tries again after the next
// completion; if none is to come, enter does.
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
		case len(e.slots)-len(e.free) > int(e.q.filled):
			return
		}
		runtime.Gosched()
	}
}

// reap completes requests until Close.
func (e *Engine) reap() {
	defer close(e.end)
	var finished []finish
	for !e.closing.Load() {
		finished = e.collect(finished[:0])
		for _, f := range finished {
			f.done(f.res)
		}
		e.wait()
	}
}

type finish struct {
	done func(backstore.Result)
	res  backstore.Result
}

// wait parks the goroutine in Go's poller until the kernel signals. The eventfd is never read: each signal is an
// edge of its own.
func (e *Engine) wait() {
	first := true
	// An error means that the file was closed, which Close does after this goroutine has ended.
	_ = e.raw.Read(func(uintptr) bool {
		if !first {
			return true
		}
		first = false
		return !e.q.empty() || e.closing.Load()
	})
}

// collect takes every completion there is, restarts short transfers, and starts what waited for a slot.
func (e *Engine) collect(out []finish) []finish {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
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
		out = append(out, finish{s.done, backstore.Result{Tag: s.req.Tag, Code: code(s, c.res)}})
		*s = slot{}
		e.free = append(e.free, i)
	}
	for len(e.backlog) > 0 && len(e.free) > 0 {
		e.start(e.backlog[0])
		e.backlog = e.backlog[1:]
	}
	if len(e.backlog) == 0 {
		e.backlog = nil
	}
	e.enter()
	return out
}

// again tells whether the request goes back to the kernel: it was interrupted, or moved only a part.
func (e *Engine) again(s *slot, res int32) bool {
	if res == -int32(unix.EINTR) || res == -int32(unix.EAGAIN) {
		return true
	}
	if res <= 0 || s.req.Op == backstore.OpFlush {
		return false
	}
	s.moved += int(res)
	return s.moved < len(s.req.Data)
}

func code(s *slot, res int32) backstore.Code {
	switch {
	case res < 0:
		return Code(unix.Errno(-res))
	case s.moved < len(s.req.Data):
		return Code(io.ErrUnexpectedEOF) // the file is shorter than the store
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

// Close ends the engine. Every request has been completed.
func (e *Engine) Close() error {
	if e.closing.Swap(true) {
		return nil
	}
	var one = [8]byte{1}
	unix.Write(e.eventFD, one[:]) // wakes the reaper; a full counter is an edge too
	<-e.end
	err := e.event.Close()
	e.q.close()
	return err
}
