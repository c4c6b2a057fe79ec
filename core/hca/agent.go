package hca

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// agent is the Device Management agent of a port: one MAD registration, and the goroutine that answers.
type agent struct {
	port *port

	mu      sync.Mutex
	reg     rdma.MADPort // nil while there is none
	none    bool         // the device takes no datagrams
	closed  bool
	problem string
	done    sync.WaitGroup

	answered, dropped, failed atomic.Uint64
}

// methods are the requests that go to an agent: Get and Set, which the class has (IBTA vol 1, 16.3.1), and those that it has not, so that
// whoever sends one is refused at once and need not wait.
var methods = []ib.Method{ib.MethodGet, ib.MethodSet, ib.MethodSend, ib.MethodReport}

// wanted tells whether a registration is missing.
func (a *agent) wanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reg == nil && !a.none && a.port.dev.table.agent.Load() != nil
}

// open registers if there is no registration, and says what has changed by that.
func (a *agent) open() string {
	dev, ok := a.port.dev.dev.(rdma.MADDevice)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.none = !ok
	if !ok || a.reg != nil || a.closed || a.port.dev.table.agent.Load() == nil {
		return ""
	}
	reg, err := dev.OpenMAD(a.port.num, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: mad.ClassVersion, Methods: methods})
	if errors.Is(err, rdma.ErrUnsupported) {
		a.none = true
		return ""
	}
	if err != nil {
		return a.fail(err)
	}
	a.reg, a.problem = reg, ""
	a.done.Go(func() { a.serve(reg) })
	return "answers discovery"
}

// fail notes why there is no registration, and tells the log once. The lock is held.
func (a *agent) fail(err error) string {
	why := err.Error()
	if errors.Is(err, rdma.ErrInUse) {
		why = conflict(err, fmt.Sprintf("%s port %d", a.port.dev.dev.Name(), a.port.num))
	}
	if a.problem != why {
		a.problem = why
		a.port.dev.table.log.Warn("discovery is not answered, trying again", "device", a.port.dev.dev.Name(), "port", a.port.num, "reason", why)
	}
	return "discovery is not answered: " + why
}

// conflict tells who has the class of a port, as far as that is known, and what to do.
func conflict(err error, port string) string {
	taken := &rdma.TakenError{Owner: "somebody else", Mend: "unload ib_srpt, or end the other target"}
	errors.As(err, &taken)
	return fmt.Sprintf("%s has the Device Management class of %s: %s; logins by address work meanwhile", taken.Owner, port, taken.Mend)
}

// serve answers until the registration ends.
func (a *agent) serve(reg rdma.MADPort) {
	in := make([]byte, rdma.MADBufferSize)
	out := make([]byte, 0, ib.MADSize)
	for {
		n, from, err := reg.Receive(a.port.dev.ctx, in)
		if err != nil {
			a.lose(reg)
			return
		}
		a.answer(reg, from, in[:n], out)
	}
}

func (a *agent) answer(reg rdma.MADPort, from rdma.MADAddr, in, out []byte) {
	table := a.port.answers()
	if table == nil {
		a.dropped.Add(1)
		return
	}
	reply, drop := table.Answer(out, in)
	if drop != mad.DropNone {
		a.dropped.Add(1)
		return
	}
	if err := reg.Send(from, reply); err != nil {
		a.failed.Add(1)
		return
	}
	a.answered.Add(1)
}

// lose gives up a registration that has ended, so that there can be another.
func (a *agent) lose(reg rdma.MADPort) {
	a.mu.Lock()
	lost := a.reg == reg && !a.closed
	if lost {
		a.reg = nil
	}
	a.mu.Unlock()
	_ = reg.Close() // it may have ended by itself
	if lost && a.port.dev.ctx.Err() == nil {
		a.port.post(rdma.AsyncPortChange)
	}
}

// close ends the registration and waits for the goroutine.
func (a *agent) close() {
	a.mu.Lock()
	reg := a.reg
	a.reg, a.closed = nil, true
	a.mu.Unlock()
	if reg != nil {
		_ = reg.Close() // nothing of it is used any more
	}
	a.done.Wait()
}
