package conn

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// rig is a reactor on one device, and peers that log in from another one.
type rig struct {
	t        testing.TB
	provider *rdmatest.Provider
	dev      *rdmatest.Device // the target's
	peerDev  *rdmatest.Device
	reactor  *Reactor
	arena    *ioctx.Arena
	disk     *disk
	listener rdma.Listener
	loop     *rdmatest.Loop
	plan     ioctx.Plan
	pool     *ReceivePool // nil: channels have receives of their own
	timing   Timing
	tables   uint64 // bytes of memory for indirect tables
	memory   int    // bytes of the arena
	hog      ioctx.Lease
	tableHog ioctx.Lease
	stopped  bool // the reactor's goroutine has been ended
}

const listenPort = 5555

// newRig makes a rig. Change it with adjust before the first login.
func newRig(t testing.TB, adjust ...func(*rig)) *rig {
	t.Helper()
	g := &rig{t: t, plan: ioctx.DefaultPlan(), memory: 64 * ioctx.PageSize, tables: 1 << 20}
	g.plan.SharedReceives = sharedByDefault
	g.plan.Credits, g.plan.Responses, g.plan.SendWork = 16, 24, 32
	g.provider, g.dev, g.peerDev = rdmatest.Pair()
	t.Cleanup(func() {
		if err := g.provider.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, f := range adjust {
		f(g)
	}
	arena, err := ioctx.NewArena(ioctx.ArenaConfig{Memory: make([]byte, g.memory), MaxWait: g.plan.MaxWait, Strict: true})
	if err == nil {
		err = arena.Register(g.dev)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.arena, g.disk = arena, newDisk(arena)
	if g.reactor, err = NewReactor(ReactorConfig{Name: "r0", Devices: []rdma.Device{g.dev}, QueueDepth: 4096, TableBytes: g.tables}); err != nil {
		t.Fatal(err)
	}
	if err = g.reactor.AddSource(arena); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.close() })
	if g.listener, err = g.dev.Listen(rdma.Service{Addr: netip.AddrPortFrom(netip.Addr{}, listenPort)}); err != nil {
		t.Fatal(err)
	}
	g.loop = rdmatest.NewLoop(t, g.peerDev, rdma.CQConfig{Depth: 4096})
	g.reactor.Start()
	if g.plan.SharedReceives > 0 {
		if g.pool, err = OpenReceivePool(t.Context(), g.reactor, g.dev, g.plan.SharedReceives, g.plan.MaxRequestIU); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// close ends the reactor and finds whatever it has not given back.
func (g *rig) close() {
	end := g.reactor.Close
	if g.stopped {
		end = g.reactor.free
	}
	if err := end(); err != nil {
		g.t.Error(err)
	}
	if g.pool != nil && (g.pool.promised != 0 || g.pool.err != nil) {
		g.t.Errorf("the pool has %d receives promised: %v", g.pool.promised, g.pool.err)
	}
	if err := g.arena.Close(); err != nil {
		g.t.Error(err)
	}
	if s := g.arena.Stats(); s.Faults != 0 {
		g.t.Errorf("%+v", s)
	}
	if err := g.listener.Close(); err != nil {
		g.t.Error(err)
	}
}

func (g *rig) run(f func()) {
	g.t.Helper()
	if err := g.reactor.Call(g.t.Context(), f); err != nil {
		g.t.Fatal(err)
	}
}

// login is what is settled with a peer.
type login struct {
	held      bool
	immediate uint16
	solNot    bool
	notify    srp.LoginFlags
}

// peer is an initiator that speaks in raw units.
type peer struct {
	g    *rig
	end  *rdmatest.End
	ch   *Channel
	done chan ChannelStats // what the channel was when it ended

	mem  []byte // remotely accessible
	reg  rdma.Region
	out  rdma.Region // units sent
	in   rdma.Region // units received
	next int
}

const (
	peerDepth = 256
	unitSize  = 9216
)

func (g *rig) register(n int, access rdma.Access) rdma.Region {
	g.t.Helper()
	r, err := g.peerDev.Register(make([]byte, n), access)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// dial connects a peer; the channel has accepted it when it returns.
func (g *rig) dial(l login) *peer {
	g.t.Helper()
	p := &peer{g: g, done: make(chan ChannelStats, 1)}
	p.end = g.loop.NewEnd(rdma.QPConfig{SendDepth: peerDepth, RecvDepth: peerDepth, MaxSGE: 1})
	p.reg = g.register(1<<20, rdma.RemoteRead|rdma.RemoteWrite)
	p.mem = p.reg.Bytes()
	p.out, p.in = g.register(peerDepth*unitSize, 0), g.register(peerDepth*512, 0)
	for i := range peerDepth {
		p.repost(uint64(i))
	}
	ports, err := g.dev.Ports()
	if err != nil {
		g.t.Fatal(err)
	}
	p.end.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: netip.AddrPortFrom(ports[0].Addrs[0], listenPort)}})
	req, err := g.listener.Accept(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	p.accept(req, l)
	return p
}

func (p *peer) accept(req rdma.ConnRequest, l login) {
	g := p.g
	g.t.Helper()
	if g.pool != nil {
		g.run(func() { g.pool.Promise(g.plan.Receives()) })
	}
	var flags srp.LoginRspFlags
	if l.solNot {
		flags = srp.LoginRspSolNot
	}
	ch, err := NewChannel(ChannelConfig{
		Receives: g.pool, Share: g.plan.Receives(),
		Reactor: g.reactor, Device: g.dev, Plan: g.plan, Handler: g.disk, Held: l.held, Timing: g.timing, Session: &Session{},
		Terms: channel.Terms{
			Rsp:    srp.LoginRsp{Delta: int32(g.plan.Credits), MaxITIU: g.plan.MaxRequestIU, MaxTIIU: g.plan.MaxResponseIU, Flags: flags},
			Limits: srp.CmdLimits{MaxTransfer: uint32(g.plan.MaxTransfer), ImmediateOffset: l.immediate},
			Notify: l.notify,
		},
		OnEnd: func(c *Channel) { p.done <- c.Stats() },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	p.ch = ch
	g.run(func() { err = ch.Accept(req) })
	if err != nil {
		g.t.Fatal(err)
	}
}

// login connects a peer and waits until both sides know.
func (g *rig) login(l login) *peer {
	g.t.Helper()
	p := g.dial(l)
	p.end.Event(rdma.EventEstablished)
	g.waitFor(func() bool { return p.ch.established })
	return p
}

func (p *peer) repost(i uint64) {
	p.end.Receive(rdma.Work{ID: i, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: p.in, Off: i * 512, Len: 512}}})
}

// send sends a unit.
func (p *peer) send(unit []byte) {
	p.g.t.Helper()
	off := uint64(p.next%peerDepth) * unitSize
	p.next++
	copy(p.out.Bytes()[off:], unit)
	p.end.Send(rdma.Work{ID: 1 << 32, Op: rdma.OpSend, Flags: rdma.Signaled,
		SGL: []rdma.SGE{{Region: p.out, Off: off, Len: uint64(len(unit))}}})
}

// trySend sends a unit, unless the connection has ended. Several goroutines may call it.
func (p *peer) trySend(unit []byte) {
	p.end.Loop.Do(func() {
		off := uint64(p.next%peerDepth) * unitSize
		p.next++
		copy(p.out.Bytes()[off:], unit)
		// An error tells that the connection has ended, which the caller sees by its events.
		_, _ = p.end.QP.PostSend([]rdma.Work{{ID: 1 << 32, Op: rdma.OpSend, Flags: rdma.Signaled,
			SGL: []rdma.SGE{{Region: p.out, Off: off, Len: uint64(len(unit))}}}})
		p.end.Loop.CQ().Flush()
	})
}

// unit returns the next unit that comes in.
func (p *peer) unit() []byte {
	p.g.t.Helper()
	for {
		c := p.end.Next()
		switch {
		case c.Op == rdma.OpSend && c.Status == rdma.StatusOK:
		case c.Op == rdma.OpRecv && c.Status == rdma.StatusOK:
			b := bytes.Clone(p.in.Bytes()[c.ID*512 : c.ID*512+uint64(c.Bytes)])
			p.repost(c.ID)
			return b
		default:
			p.g.t.Fatalf("got %+v (%v), want a unit", c, c.Status)
		}
	}
}

// rsp returns the next unit, which must be a response to tag.
func (p *peer) rsp(tag srp.Tag) srp.Rsp {
	p.g.t.Helper()
	b := p.unit()
	r, err := srp.ParseRsp(b)
	if err != nil || r.Tag() != tag {
		p.g.t.Fatalf("got % x (%v), want a response to %v", b, err, tag)
	}
	return r
}

// disconnected waits for the end of the connection, and returns the units that came before it.
func (p *peer) disconnected() (units [][]byte) {
	p.g.t.Helper()
	for {
		c := p.end.Next()
		switch {
		case c.Op == rdma.OpEvent && c.Event == rdma.EventDisconnected:
			return units
		case c.Op == rdma.OpRecv && c.Status == rdma.StatusOK:
			units = append(units, bytes.Clone(p.in.Bytes()[c.ID*512:c.ID*512+uint64(c.Bytes)]))
		}
	}
}

// desc names n bytes at off of the peer's memory.
func (p *peer) desc(off, n uint32) srp.Desc {
	return srp.Desc{Addr: p.reg.Addr() + uint64(off), Key: p.reg.RKey(), Length: n}
}

func direct(d srp.Desc) srp.DataFields {
	return srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{d}}
}

func indirect(list ...srp.Desc) srp.DataFields {
	return srp.DataFields{Format: srp.FormatIndirect, List: list, Table: srp.Desc{Addr: 0xdead, Key: 1}}
}

// The opcodes of a disk: read and write byte ranges, and commands to be ended by the test.
const (
	opRead  = 0x28
	opWrite = 0x2a
	opHold  = 0xc0
	opFetch = 0xc1 // fetches, then is held
)

func cdb(op byte, off, n uint32) []byte {
	b := make([]byte, 16)
	b[0] = op
	binary.BigEndian.PutUint32(b[4:], off)
	binary.BigEndian.PutUint32(b[8:], n)
	return b
}

func (p *peer) read(tag srp.Tag, off, n uint32, in srp.DataFields) {
	p.g.t.Helper()
	f := srp.CmdFields{Tag: tag, CDB: cdb(opRead, off, n), In: in}
	p.send(f.Append(nil))
}

func (p *peer) write(tag srp.Tag, off, n uint32, out srp.DataFields) {
	p.g.t.Helper()
	f := srp.CmdFields{Tag: tag, CDB: cdb(opWrite, off, n), Out: out}
	p.send(f.Append(nil))
}

func (p *peer) hold(tag srp.Tag) {
	p.g.t.Helper()
	f := srp.CmdFields{Tag: tag, CDB: cdb(opHold, 0, 0)}
	p.send(f.Append(nil))
}

// disk is a Handler over a piece of memory. It belongs to the reactor's goroutine.
type disk struct {
	arena *ioctx.Arena
	data  []byte
	held  []*Command
	// news is told of each held command and of each abort of one.
	news    chan string
	onAbort func(c *Command)
	onTM    func(t *TaskManagement)
	started int
}

func newDisk(a *ioctx.Arena) *disk {
	d := &disk{arena: a, data: make([]byte, max(1<<20, len(a.Bytes()))), news: make(chan string, 1000)}
	d.onAbort = func(c *Command) { d.drop(c); c.Finish(Result{}) }
	d.onTM = func(t *TaskManagement) { t.Finish(srp.RspComplete) }
	return d
}

func (d *disk) NewState(c *Command) any { return new(int) }

func (d *disk) Start(c *Command) {
	d.started++
	op, off, n := c.IU.CDB()[0], binary.BigEndian.Uint32(c.IU.CDB()[4:]), uint64(binary.BigEndian.Uint32(c.IU.CDB()[8:]))
	if uint64(off)+n > uint64(len(d.data)) {
		op = 0xff
	}
	switch op {
	case opRead:
		c.GetBuffer(d.arena, n)
	case opWrite, opFetch:
		c.Fetch(d.arena, n, n)
	case opHold:
		d.hold(c)
	default:
		c.Finish(Result{Status: 2, Sense: []byte{0x70, 0, 5, 17: 0}})
	}
}

func (d *disk) hold(c *Command) {
	d.held = append(d.held, c)
	d.news <- "held"
}

func (d *disk) drop(c *Command) {
	for i, h := range d.held {
		if h == c {
			d.held = append(d.held[:i], d.held[i+1:]...)
			return
		}
	}
}

func (d *disk) DataReady(c *Command) {
	b, n := c.IU.CDB(), uint64(len(c.Data()))
	off := binary.BigEndian.Uint32(b[4:])
	switch b[0] {
	case opRead:
		copy(c.Data(), d.data[off:])
		c.Finish(Result{InUsed: n, Wanted: n})
	case opWrite:
		copy(d.data[off:], c.Data())
		c.Finish(Result{OutUsed: n, Wanted: n})
	case opFetch:
		d.hold(c)
	}
}

func (d *disk) Abort(c *Command) {
	d.news <- "abort"
	d.onAbort(c)
}

func (d *disk) TaskManagement(t *TaskManagement) { d.onTM(t) }

// finishHeld ends the oldest held command.
func (g *rig) finishHeld(r Result) {
	g.t.Helper()
	g.run(func() {
		c := g.disk.held[0]
		g.disk.drop(c)
		c.Finish(r)
	})
}

func (g *rig) expectNews(want string) {
	g.t.Helper()
	if got := <-g.disk.news; got != want {
		g.t.Fatalf("news %q, want %q", got, want)
	}
}
