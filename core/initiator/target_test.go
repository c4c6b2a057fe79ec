package initiator

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

const (
	blockSize  = 512
	diskBlocks = 256
	targetIU   = 512
	windowSize = 64
)

// script is a target of the tests: a small disk behind a fake of the protocol, each part of which
// a test can replace. The functions run in the loop's goroutine.
type script struct {
	tb   testing.TB
	dev  *rdmatest.Device
	loop *rdmatest.Loop
	disk rdma.Region

	// credits is the delta of the login response, size the longest unit each way.
	credits int32
	size    uint32
	// login answers a request; nil accepts.
	login func(n int, req rdma.ConnRequest, lr srp.LoginReq) (private []byte, reject rdma.RejectReason)
	// command handles an SRP_CMD; nil serves the disk.
	command func(c *conn, cmd *srp.Cmd)
	// task handles an SRP_TSK_MGMT; nil completes it.
	task func(c *conn, t srp.TskMgmt)
	// other handles what is neither.
	other func(c *conn, iu []byte)

	mu    sync.Mutex
	conns []*conn
	reqs  []srp.LoginReq
	// seen counts commands by the format of their data-out and data-in.
	out, in [4]atomic.Uint64
	// outstanding and peak count commands without a response.
	outstanding, peak int
}

// conn is a channel of the script.
type conn struct {
	s    *script
	end  *rdmatest.End
	recv rdma.Region
	send rdma.Region
	next int
	imm  uint16
	cmd  srp.Cmd
	work []rdma.Work
	sges [windowSize][1]rdma.SGE
	rsge [1]rdma.SGE
	// reading has the response that waits for an RDMA READ, by the ID of the last one.
	reading map[uint64]srp.Tag
	readID  uint64
	ready   chan struct{}
}

func newScript(tb testing.TB, dev *rdmatest.Device) *script {
	s := &script{tb: tb, dev: dev, credits: windowSize - 8, size: 8260}
	s.loop = rdmatest.NewLoop(tb, dev, rdma.CQConfig{Depth: 1024})
	var err error
	if s.disk, err = dev.Register(make([]byte, diskBlocks*blockSize), rdma.ReadSink); err != nil {
		tb.Fatal(err)
	}
	return s
}

// listen serves until the test ends.
func (s *script) listen(svc rdma.Service) {
	l, err := s.dev.Listen(svc)
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			req, err := l.Accept(ctx)
			if err != nil {
				return
			}
			s.accept(n, req)
		}
	}()
	s.tb.Cleanup(func() {
		cancel()
		<-done
		l.Close()
	})
}

// parseLogin reads the form that belongs to the kind of connection.
func parseLogin(req rdma.ConnRequest) (srp.LoginReq, error) {
	if req.Info().IPAddressed {
		return srp.ParseLoginReqRDMA(req.Private())
	}
	return srp.ParseLoginReq(req.Private())
}

func (s *script) accept(n int, req rdma.ConnRequest) {
	lr, err := parseLogin(req)
	if err != nil {
		s.tb.Errorf("login request %x: %v", req.Private(), err)
	}
	s.mu.Lock()
	s.reqs = append(s.reqs, lr)
	s.mu.Unlock()
	rsp := srp.LoginRsp{Delta: s.credits, Tag: lr.Tag, MaxITIU: s.size, MaxTIIU: targetIU, Formats: 6}
	if lr.Flags&srp.LoginImmediate != 0 {
		rsp.Flags |= srp.LoginRspImmediate
	}
	private := rsp.Append(nil)
	if s.login != nil {
		var reason rdma.RejectReason
		if private, reason = s.login(n, req, lr); reason != 0 {
			if err := req.Reject(reason, private); err != nil {
				s.tb.Error(err)
			}
			return
		}
	}
	if private == nil {
		private = rsp.Append(nil)
	}
	s.open(req, lr, private)
}

func (s *script) open(req rdma.ConnRequest, lr srp.LoginReq, private []byte) {
	c := &conn{s: s, imm: lr.ImmediateOffset, reading: make(map[uint64]srp.Tag), ready: make(chan struct{}, 1)}
	c.end = s.loop.NewEnd(rdma.QPConfig{SendDepth: 256, RecvDepth: windowSize, MaxSGE: 1})
	c.end.Handle = c.handle
	var err error
	if c.recv, err = s.dev.Register(make([]byte, windowSize*int(s.size)), 0); err != nil {
		s.tb.Error(err)
	}
	if c.send, err = s.dev.Register(make([]byte, windowSize*targetIU), 0); err != nil {
		s.tb.Error(err)
	}
	c.work = make([]rdma.Work, 0, 300)
	s.loop.Do(func() {
		for i := range uint64(windowSize) {
			c.receive(i)
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		if err := c.end.QP.Accept(req, private); err != nil {
			s.tb.Error(err)
		}
	})
}

func (c *conn) receive(i uint64) {
	c.rsge[0] = rdma.SGE{Region: c.recv, Off: i * uint64(c.s.size), Len: uint64(c.s.size)}
	c.work = append(c.work[:0], rdma.Work{ID: i, Op: rdma.OpRecv, SGL: c.rsge[:]})
	if _, err := c.end.QP.PostRecv(c.work); err != nil && c.s.tb.Context().Err() == nil {
		c.s.tb.Logf("script: %v", err)
	}
}

func (c *conn) handle(comp *rdma.Completion) bool {
	if comp.Op == rdma.OpEvent || comp.Status != rdma.StatusOK {
		return false
	}
	switch comp.Op {
	case rdma.OpRecv:
		off := comp.ID * uint64(c.s.size)
		iu := c.recv.Bytes()[off : off+uint64(comp.Bytes)]
		c.unit(iu)
		c.receive(comp.ID)
	case rdma.OpRead:
		if tag, ok := c.reading[comp.ID]; ok {
			delete(c.reading, comp.ID)
			c.respond(&srp.RspFields{Tag: tag, Delta: 1})
		}
	}
	return true
}

func (c *conn) unit(iu []byte) {
	switch op := srp.Opcode(iu[0]); {
	case op == srp.OpCmd:
		if err := c.cmd.Parse(iu, srp.CmdLimits{MaxTransfer: 1 << 30, MaxTable: 1 << 20, ImmediateOffset: c.imm}); err != nil {
			c.s.tb.Errorf("command %x: %v", iu, err)
			return
		}
		c.s.out[c.cmd.DataOut().Format()].Add(1)
		c.s.in[c.cmd.DataIn().Format()].Add(1)
		c.s.outstanding++
		c.s.peak = max(c.s.peak, c.s.outstanding)
		if c.s.command != nil {
			c.s.command(c, &c.cmd)
		} else {
			c.serve(&c.cmd)
		}
	case op == srp.OpTskMgmt && c.s.task != nil:
		t, err := srp.ParseTskMgmt(iu)
		if err != nil {
			c.s.tb.Errorf("task management %x: %v", iu, err)
			return
		}
		c.s.task(c, t)
	case op == srp.OpTskMgmt:
		c.respondTask(srp.TskMgmt(iu).Tag(), srp.RspComplete)
	case op == srp.OpILogout && c.s.other == nil:
		if err := c.end.QP.Disconnect(); err != nil {
			c.s.tb.Error(err)
		}
	case c.s.other != nil:
		c.s.other(c, iu)
	default:
		c.s.tb.Errorf("script got %x", iu)
	}
}

// serve is a disk that reads and writes.
func (c *conn) serve(cmd *srp.Cmd) {
	cdb := cmd.CDB()
	lba, n := binary.BigEndian.Uint64(cdb[2:]), uint64(binary.BigEndian.Uint32(cdb[10:]))*blockSize
	switch {
	case cdb[0] == opRead16:
		c.move(rdma.OpWrite, cmd.DataIn(), lba*blockSize, n)
		c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1, In: srp.Residual(int64(cmd.DataIn().Len()) - int64(n))})
	case cdb[0] == opWrite16 && cmd.DataOut().Format() == srp.FormatImmediate:
		copy(c.s.disk.Bytes()[lba*blockSize:][:n], cmd.DataOut().Immediate())
		c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1})
	case cdb[0] == opWrite16:
		c.move(rdma.OpRead, cmd.DataOut(), lba*blockSize, n)
		c.reading[c.readID] = cmd.Tag()
	default:
		c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1})
	}
}

// move transfers n bytes between the disk and the initiator's memory.
func (c *conn) move(op rdma.Op, d *srp.Data, off, n uint64) {
	for i := 0; i < d.Count() && n > 0; i++ {
		e := d.At(i)
		length := min(n, uint64(e.Length))
		c.readID++
		sge := &c.sges[c.readID%windowSize]
		sge[0] = rdma.SGE{Region: c.s.disk, Off: off, Len: length}
		c.work = append(c.work[:0], rdma.Work{ID: c.readID, Op: op, Flags: rdma.Signaled, SGL: sge[:], RemoteAddr: e.Addr, RKey: e.Key})
		c.post()
		off, n = off+length, n-length
	}
}

func (c *conn) post() {
	if n, err := c.end.QP.PostSend(c.work); n != len(c.work) {
		c.s.tb.Logf("script: %v", err)
	}
}

// respond sends an SRP_RSP.
func (c *conn) respond(f *srp.RspFields) {
	c.s.outstanding--
	c.raw(srp.AppendRsp(c.buffer(), f, targetIU))
}

func (c *conn) respondTask(tag srp.Tag, code srp.RspCode) {
	c.raw(srp.AppendRsp(c.buffer(), &srp.RspFields{Tag: tag, Delta: 1, HasCode: true, Code: code}, targetIU))
}

// check answers with CHECK CONDITION and fixed sense data.
func (c *conn) check(tag srp.Tag, key, asc, ascq byte) {
	sense := make([]byte, 18)
	sense[0], sense[2], sense[7], sense[12], sense[13] = 0x70, key, 10, asc, ascq
	c.respond(&srp.RspFields{Tag: tag, Delta: 1, Status: 2, Sense: sense})
}

// buffer is the room for the next unit.
func (c *conn) buffer() []byte {
	c.next = (c.next + 1) % windowSize
	return c.send.Bytes()[c.next*targetIU : c.next*targetIU : (c.next+1)*targetIU]
}

// raw sends a unit; if it was not built in the buffer it is copied there.
func (c *conn) raw(iu []byte) {
	off := c.next * targetIU
	copy(c.send.Bytes()[off:off+targetIU], iu)
	sge := &c.sges[c.next]
	sge[0] = rdma.SGE{Region: c.send, Off: uint64(off), Len: uint64(len(iu))}
	c.work = append(c.work[:0], rdma.Work{Op: rdma.OpSend, Flags: rdma.Signaled, SGL: sge[:]})
	c.post()
}

// do runs fn on the connection of a channel, in the loop's goroutine.
func (s *script) do(channel int, fn func(c *conn)) {
	s.loop.Do(func() { fn(s.conns[channel]) })
}

var (
	initiatorID = srp.MakePortID(1, 0x0002c90300a1b2c3)
	targetID    = srp.MakePortID(2, 0x0002c90300112233)
	service     = rdma.Service{Addr: netip.MustParseAddrPort("192.0.2.2:5555")}
)

// bed is a script and the configuration to log in to it.
type bed struct {
	testing.TB
	a, b *rdmatest.Device
	*script
	cfg Config
}

func newBed(tb testing.TB) *bed {
	p, a, b := rdmatest.Pair()
	tb.Cleanup(func() { p.Close() })
	return &bed{TB: tb, a: a, b: b, script: newScript(tb, b), cfg: Config{Device: a, Remote: service.Addr,
		Initiator: initiatorID, Target: targetID}}
}

// dial logs in; the session is closed when the test ends.
func (b *bed) dial() *Session {
	b.Helper()
	b.listen(service)
	s, err := Dial(context.Background(), b.cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// memory registers n bytes for a command.
func (b *bed) memory(s *Session, n int) rdma.Region {
	b.Helper()
	r, err := s.Register(make([]byte, n))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return r
}

// start submits a command whose end comes through the channel.
func (b *bed) start(s *Session, c *Command) chan error {
	b.Helper()
	done := make(chan error, 1)
	c.Done = func(c *Command) { done <- c.Result.Check() }
	if n, err := s.Submit(c); n != 1 {
		b.Fatal(err)
	}
	return done
}

func pieces(r rdma.Region, lens ...uint64) (sgl []rdma.SGE) {
	var off uint64
	for _, n := range lens {
		sgl = append(sgl, rdma.SGE{Region: r, Off: off, Len: n})
		off += n
	}
	return sgl
}
