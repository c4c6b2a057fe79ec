package conn

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// meter is a queue pair that looks at what is posted.
type meter struct {
	rdma.QP
	longest int // elements of an SGL
	full    int // times that the send queue was too full
}

func (m *meter) PostSend(work []rdma.Work) (int, error) {
	for i := range work {
		m.longest = max(m.longest, len(work[i].SGL))
	}
	n, err := m.QP.PostSend(work)
	if errors.Is(err, rdma.ErrFull) {
		m.full++
	}
	return n, err
}

// TestDeviceWithFewElementsAndAShortQueueMovesMegabytes is case B05.1 and B05.2: on a device that has fewer elements and work requests
// than the plan asks for, or grants a queue pair fewer elements than it tells of, channels move megabytes in pages at full depth. No work
// request has more elements than were granted, the queue is never asked for more than it holds, and nothing is flushed.
func TestDeviceWithFewElementsAndAShortQueueMovesMegabytes(t *testing.T) {
	for name, row := range map[string]struct {
		dev                 rdmatest.DeviceConfig
		size, peers, rounds int
		memory, deep        int
	}{
		"1 MiB on four channels":  {rdmatest.DeviceConfig{MaxSGE: 6, MaxQPWork: 40}, 1 << 20, 4, 3, 16 << 20, 16},
		"16 MiB on two channels":  {rdmatest.DeviceConfig{MaxSGE: 32, GrantedSGE: 1, MaxQPWork: 40}, 16 << 20, 2, 1, 64 << 20, 4},
		"16 MiB of a queue of 20": {rdmatest.DeviceConfig{MaxSGE: 1, MaxQPWork: 20}, 16 << 20, 1, 1, 64 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) { movesMegabytes(t, row.dev, row.size, row.peers, row.rounds, row.memory, row.deep) })
	}
}

// movesMegabytes has so many peers, rounds and commands at a time write and read size bytes, a descriptor for each page.
func movesMegabytes(t *testing.T, dev rdmatest.DeviceConfig, size, peers, rounds, memory, deep int) {
	leaktest.Check(t)
	pages := size / 4096
	g := newRig(t, func(g *rig) {
		dev.Name, dev.Addrs = "small", []netip.Addr{netip.MustParseAddr("192.0.2.9")}
		g.dev = g.provider.Add(dev)
		g.memory, g.plan.SendWork = memory, 512
		g.plan.Credits = min(g.plan.Credits, dev.MaxQPWork/2)
	})
	type end struct {
		p      *peer
		meter  *meter
		out    srp.DataFields
		in     srp.DataFields
		outMem []byte
		inMem  []byte
	}
	var ends []*end
	for i := range peers {
		e := &end{p: g.login(login{}), meter: &meter{}}
		g.run(func() { e.meter.QP, e.p.ch.qp = e.p.ch.qp, e.meter })
		mem := g.register(2*size+2*pages*srp.DescLen, rdma.RemoteRead|rdma.RemoteWrite)
		at := func(off, n int) srp.Desc {
			return srp.Desc{Addr: mem.Addr() + uint64(off), Key: mem.RKey(), Length: uint32(n)}
		}
		build := func(base, table int) (d srp.DataFields) {
			d = srp.DataFields{Format: srp.FormatIndirect, Remote: pages - 12, Table: at(table, 0)}
			b := mem.Bytes()[table:table]
			for k := range pages {
				d.List = append(d.List, at(base+(k*37%pages)*4096, 4096))
				b = d.List[k].Append(b)
			}
			return d
		}
		e.outMem, e.inMem = mem.Bytes()[:size], mem.Bytes()[size:2*size]
		e.out, e.in = build(0, 2*size), build(size, 2*size+pages*srp.DescLen)
		fill(e.outMem, uint64(i))
		ends = append(ends, e)
	}
	for i, e := range ends { // what is read below
		e.p.write(0, uint32(i*size), uint32(size), e.out)
		e.p.rsp(0)
	}
	for range rounds {
		for tag := range srp.Tag(deep) {
			for i, e := range ends {
				if tag%2 == 0 {
					e.p.write(tag, uint32(i*size), uint32(size), e.out)
				} else {
					e.p.read(tag, uint32(i*size), uint32(size), e.in)
				}
			}
		}
		for _, e := range ends {
			for range deep {
				if r, err := srp.ParseRsp(e.p.unit()); err != nil || r.Status() != 0 || r.Out() != 0 || r.In() != 0 {
					t.Fatalf("% x, %v", []byte(r), err)
				}
			}
		}
	}
	for i, e := range ends {
		if !bytes.Equal(e.inMem, e.outMem) {
			t.Errorf("channel %d read other data than it wrote", i)
		}
		g.run(func() {
			if e.meter.longest > e.meter.MaxSGE() || e.meter.full > 0 {
				t.Errorf("channel %d: %d elements in a work request, %d posts too many", i, e.meter.longest, e.meter.full)
			}
			if s := e.p.ch.Stats(); s.State != channel.Live || s.FailedWork != 0 {
				t.Errorf("channel %d: %v, %v", i, s.State, s.Fault)
			}
		})
		g.settled(e.p)
	}
}

// TestWindowOfAnIdleInitiatorIsThatOfItsLogin is case B06.3: after ten thousand commands, aborts, resets and commands that are
// refused, whatever brought the credits back.
func TestWindowOfAnIdleInitiatorIsThatOfItsLogin(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	g.run(func() { g.disk.news = make(chan string, 30_000) }) // which nobody takes
	window := g.plan.Credits
	table := p.table(4, 2)
	out := map[srp.Tag]bool{}                    // sent, and neither answered nor aborted: true for commands that end by an abort only
	ends := map[srp.Tag]func(tag srp.Tag) bool{} // which commands the answer to a task management request ends
	take := func() {
		b := p.unit()
		if req, err := srp.ParseCredReq(b); err == nil {
			window += int(req.Delta)
			p.send(srp.AppendCredRsp(nil, req.Tag))
			return
		}
		r, err := srp.ParseRsp(b)
		if _, waits := out[r.Tag()]; err != nil || !waits {
			t.Fatalf("% x: %v", b, err)
		}
		window += int(r.Delta())
		delete(out, r.Tag())
		if f := ends[r.Tag()]; f != nil {
			for tag := range out {
				if ends[tag] == nil && f(tag) {
					delete(out, tag)
				}
			}
		}
	}
	stuck := func() (n int) {
		for _, hold := range out {
			if hold {
				n++
			}
		}
		return n
	}
	reset := func(i srp.Tag) {
		f := srp.TskMgmtFields{Tag: i, Function: srp.FuncLUNReset}
		ends[i] = func(tag srp.Tag) bool { return tag < i }
		p.send(f.Append(nil))
	}
	for i := range srp.Tag(10_000) {
		for window == 0 || window == 1 && stuck() < g.plan.Credits-1 || len(out)-stuck() > 6 && rnd.IntN(2) == 0 {
			take()
		}
		kind := rnd.IntN(20)
		if stuck() > 6 {
			kind = 19
		}
		window--
		out[i] = false
		switch {
		case kind < 4:
			p.read(i, 0, 4096, direct(p.desc(0, 4096)))
		case kind < 8:
			p.write(i, 0, 2048, table)
		case kind < 10:
			p.read(i, 0, 10, indirect(p.desc(0, 5)))
		case kind < 12:
			f := srp.CmdFields{Tag: i, CDB: cdb(0xff, 0, 0), Attr: 3}
			p.send(f.Append(nil))
		case kind < 16:
			out[i] = true
			p.hold(i)
		case kind < 19:
			f := srp.TskMgmtFields{Tag: i, Function: srp.FuncAbortTask, Managed: i - srp.Tag(rnd.IntN(8))}
			ends[i] = func(tag srp.Tag) bool { return tag == f.Managed }
			p.send(f.Append(nil))
		default:
			reset(i)
		}
	}
	for window == 0 {
		take()
	}
	window--
	out[20_000] = false
	reset(20_000)
	for len(out) > 0 || window < g.plan.Credits {
		take()
	}
	if window != g.plan.Credits {
		t.Errorf("the initiator's idle window is %d of %d", window, g.plan.Credits)
	}
	g.waitFor(func() bool { return !p.ch.m.Asking() })
	g.settled(p)
}
