package hostile

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Patience bounds every wait for what must happen: long, for machines that are busy with other things.
const Patience = 60 * time.Second

// Channel is a channel whose units are any bytes. It belongs to one goroutine.
type Channel struct {
	t    testing.TB
	cq   rdma.CQ
	qp   rdma.QP
	send rdma.Region
	recv rdma.Region
	// answer is the end of the login.
	answer rdma.Completion
	// units are the answers that have not been looked at.
	units [][]byte
	// closed tells that the connection has ended.
	closed bool
}

// Peer is where channels come from and go to.
type Peer struct {
	Device rdma.Device
	// Local is the address that they come from, Target the address and port that they go to.
	Local  netip.Addr
	Target netip.AddrPort
}

const (
	rawReceives = 16
	rawUnit     = 4096
	rawSend     = 64 << 10
)

// Knock asks for a connection with any private data, and returns when the answer is there. Close ends the channel, however it was answered.
func Knock(t testing.TB, p Peer, private []byte) *Channel {
	t.Helper()
	c := &Channel{t: t}
	var err error
	must := func(what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	c.cq, err = p.Device.NewCQ(rdma.CQConfig{Depth: 256})
	must("completion queue")
	c.qp, err = c.cq.NewQP(rdma.QPConfig{SendDepth: 64, RecvDepth: rawReceives, MaxSGE: 1})
	must("queue pair")
	c.send, err = p.Device.Register(make([]byte, rawSend), 0)
	must("send buffer")
	c.recv, err = p.Device.Register(make([]byte, rawReceives*rawUnit), 0)
	must("receive buffers")
	for i := range uint64(rawReceives) {
		c.receive(i)
	}
	err = c.qp.Connect(rdma.ConnectParams{Local: p.Local, Remote: rdma.Service{Addr: p.Target}, Private: private, Timeout: Patience})
	must("connect")
	c.until("the login is answered", func() bool { return c.answer.Event != 0 })
	return c
}

// Answer is how the login ended: EventEstablished or EventRejected, with the answer's private data.
func (c *Channel) Answer() rdma.Completion { return c.answer }

// Login logs in with what must be accepted, in the form for RDMA/CM.
func Login(t testing.TB, p Peer, r srp.LoginReq) (*Channel, srp.LoginRsp) {
	t.Helper()
	c := Knock(t, p, r.AppendRDMA(nil))
	rsp, err := srp.ParseLoginRsp(c.answer.Data)
	if c.answer.Event != rdma.EventEstablished || err != nil {
		t.Fatalf("the login was not accepted: %+v, %v", c.answer, err)
	}
	return c, rsp
}

func (c *Channel) receive(i uint64) {
	c.t.Helper()
	w := rdma.Work{ID: i, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: c.recv, Off: i * rawUnit, Len: rawUnit}}}
	if _, err := c.qp.PostRecv([]rdma.Work{w}); err != nil {
		c.t.Fatalf("post receive: %v", err)
	}
}

// Put sends units, one after the other.
func (c *Channel) Put(units ...[]byte) {
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
func (c *Channel) until(what string, holds func() bool) {
	c.t.Helper()
	end := time.Now().Add(Patience)
	for !holds() {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", Patience, what)
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

func (c *Channel) poll() int {
	var done [16]rdma.Completion
	n := c.cq.Poll(done[:])
	for _, d := range done[:n] {
		switch {
		case d.Op == rdma.OpEvent:
			if c.answer.Event == 0 {
				c.answer = d
			}
			c.closed = d.Event != rdma.EventEstablished
		case d.Op == rdma.OpRecv && d.Status == rdma.StatusOK:
			c.units = append(c.units, bytes.Clone(c.recv.Bytes()[d.ID*rawUnit:d.ID*rawUnit+uint64(d.Bytes)]))
			c.receive(d.ID)
		}
	}
	return n
}

// Unit waits for the next unit; nil if the connection ends before.
func (c *Channel) Unit() []byte {
	c.t.Helper()
	c.until("an answer, or the end", func() bool { return len(c.units) > 0 || c.closed })
	if len(c.units) == 0 {
		return nil
	}
	u := c.units[0]
	c.units = c.units[1:]
	return u
}

// Close ends the channel.
func (c *Channel) Close() {
	c.t.Helper()
	for _, closer := range []interface{ Close() error }{c.qp, c.cq, c.send, c.recv} {
		if err := closer.Close(); err != nil {
			c.t.Error(err)
		}
	}
}
