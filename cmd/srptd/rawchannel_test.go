package main

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// rawChannel is a channel whose units are any bytes. It belongs to one goroutine.
type rawChannel struct {
	t    testing.TB
	cq   rdma.CQ
	qp   rdma.QP
	send rdma.Region
	recv rdma.Region
	rsp  srp.LoginRsp
	// units are the answers that have not been looked at.
	units [][]byte
	// closed tells that the connection has ended.
	closed bool
}

const (
	rawReceives = 16
	rawUnit     = 4096
	rawSend     = 64 << 10
)

// rawLogin logs in with a channel of its own nexus.
func rawLogin(t testing.TB, h *computer, s *site, r srp.LoginReq) *rawChannel {
	t.Helper()
	c := &rawChannel{t: t}
	var err error
	must := func(what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	c.cq, err = h.dev.NewCQ(rdma.CQConfig{Depth: 256})
	must("completion queue")
	c.qp, err = c.cq.NewQP(rdma.QPConfig{SendDepth: 64, RecvDepth: rawReceives, MaxSGE: 1})
	must("queue pair")
	c.send, err = h.dev.Register(make([]byte, rawSend), 0)
	must("send buffer")
	c.recv, err = h.dev.Register(make([]byte, rawReceives*rawUnit), 0)
	must("receive buffers")
	for i := range uint64(rawReceives) {
		c.receive(i)
	}
	err = c.qp.Connect(rdma.ConnectParams{Local: h.addr, Remote: rdma.Service{Addr: s.service()}, Private: r.AppendRDMA(nil), Timeout: patience})
	must("connect")
	c.until("the login is answered", func() bool { return c.rsp.Delta != 0 || c.closed })
	if c.closed {
		t.Fatal("the login was refused")
	}
	return c
}

func (c *rawChannel) receive(i uint64) {
	c.t.Helper()
	w := rdma.Work{ID: i, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: c.recv, Off: i * rawUnit, Len: rawUnit}}}
	if _, err := c.qp.PostRecv([]rdma.Work{w}); err != nil {
		c.t.Fatalf("post receive: %v", err)
	}
}

// put sends units, one after the other.
func (c *rawChannel) put(units ...[]byte) {
	c.t.Helper()
	var work []rdma.Work
	off := 0
	for _, u := range units {
		copy(c.send.Bytes()[off:], u)
		w := rdma.Work{Op: rdma.OpSend, Flags: rdma.Signaled}
		if len(u) > 0 {
			w.SGL = []rdma.SGE{{Region: c.send, Off: uint64(off), Len: uint64(len(u))}}
		}
		work = append(work, w)
		off += len(u)
	}
	if n, err := c.qp.PostSend(work); err != nil {
		c.t.Fatalf("%d of %d units sent: %v", n, len(units), err)
	}
	c.cq.Flush()
}

// until takes what comes until something holds.
func (c *rawChannel) until(what string, holds func() bool) {
	c.t.Helper()
	end := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", patience, what)
		}
		if c.poll() == 0 && c.cq.Arm() {
			wait := 100
			if d := c.cq.Deadline(); !d.IsZero() {
				wait = int(min(max(time.Until(d).Milliseconds()+1, 0), 100))
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.cq.FD()), Events: unix.POLLIN}}, wait) // an early end does no harm
		}
	}
}

func (c *rawChannel) poll() int {
	var done [16]rdma.Completion
	n := c.cq.Poll(done[:])
	for _, d := range done[:n] {
		switch {
		case d.Op == rdma.OpEvent && d.Event == rdma.EventEstablished:
			rsp, err := srp.ParseLoginRsp(d.Data)
			if err != nil {
				c.t.Fatal(err)
			}
			c.rsp = rsp
		case d.Op == rdma.OpEvent:
			c.closed = true
		case d.Op == rdma.OpRecv && d.Status == rdma.StatusOK:
			c.units = append(c.units, bytes.Clone(c.recv.Bytes()[d.ID*rawUnit:d.ID*rawUnit+uint64(d.Bytes)]))
			c.receive(d.ID)
		}
	}
	return n
}

// unit waits for the next unit; nil if the connection ends before.
func (c *rawChannel) unit() []byte {
	c.t.Helper()
	c.until("an answer, or the end", func() bool { return len(c.units) > 0 || c.closed })
	if len(c.units) == 0 {
		return nil
	}
	u := c.units[0]
	c.units = c.units[1:]
	return u
}

// close ends the channel.
func (c *rawChannel) close() {
	c.t.Helper()
	for _, closer := range []interface{ Close() error }{c.qp, c.cq, c.send, c.recv} {
		if err := closer.Close(); err != nil {
			c.t.Error(err)
		}
	}
}
