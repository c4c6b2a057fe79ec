package conn

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// stepper drives a reactor and a peer from one goroutine, so that every allocation of a command's
// way is the test's to see.
type stepper struct {
	t     testing.TB
	g     *rig
	p     *peer
	batch [16]rdma.Completion
	work  [1]rdma.Work
	sge   [1]rdma.SGE
}

func newStepper(t testing.TB, immediate uint16) *stepper {
	g := newRig(t)
	s := &stepper{t: t, g: g, p: g.login(login{immediate: immediate})}
	g.loop.Stop()
	g.reactor.control.end(g.reactor.Wake)
	g.stopped = true
	return s
}

// load puts a unit into the peer's send buffer and returns its length.
func (s *stepper) load(f srp.CmdFields) uint64 {
	return uint64(copy(s.p.out.Bytes(), f.Append(nil)))
}

// exchange sends the loaded unit and waits for the response.
func (s *stepper) exchange(n uint64) {
	cq, qp := s.g.loop.CQ(), s.p.end.QP
	s.sge[0] = rdma.SGE{Region: s.p.out, Len: n}
	s.work[0] = rdma.Work{Op: rdma.OpSend, Flags: rdma.Signaled, SGL: s.sge[:]}
	if _, err := qp.PostSend(s.work[:]); err != nil {
		s.t.Fatal(err)
	}
	cq.Flush()
	for range 100 {
		s.g.reactor.turn()
		k := cq.Poll(s.batch[:])
		for _, c := range s.batch[:k] {
			if c.Status != rdma.StatusOK {
				s.t.Fatalf("%+v", c)
			}
			if c.Op != rdma.OpRecv {
				continue
			}
			if status := s.p.in.Bytes()[c.ID*512+19]; status != 0 {
				s.t.Fatalf("status %x", status)
			}
			s.sge[0] = rdma.SGE{Region: s.p.in, Off: c.ID * 512, Len: 512}
			s.work[0] = rdma.Work{ID: c.ID, Op: rdma.OpRecv, SGL: s.sge[:]}
			if _, err := qp.PostRecv(s.work[:]); err != nil {
				s.t.Fatal(err)
			}
			cq.Flush()
			s.g.reactor.turn()
			return
		}
	}
	s.t.Fatal("no response")
}

var steadyCases = []struct {
	name  string
	build func(p *peer) srp.CmdFields
}{
	{"read", func(p *peer) srp.CmdFields {
		return srp.CmdFields{Tag: 1, CDB: cdb(opRead, 0, 4096), In: direct(p.desc(0, 4096))}
	}},
	{"write", func(p *peer) srp.CmdFields {
		return srp.CmdFields{Tag: 1, CDB: cdb(opWrite, 0, 4096), Out: direct(p.desc(0, 4096))}
	}},
	{"write of many pieces", func(p *peer) srp.CmdFields {
		var list []srp.Desc
		for i := range uint32(64) {
			list = append(list, p.desc(i*128, 64))
		}
		return srp.CmdFields{Tag: 1, CDB: cdb(opWrite, 0, 4096), Out: indirect(list...)}
	}},
	{"write with a table in memory", func(p *peer) srp.CmdFields {
		return srp.CmdFields{Tag: 1, CDB: cdb(opWrite, 0, 4096), Out: p.table(8, 2)}
	}},
	{"read with a table in memory", func(p *peer) srp.CmdFields {
		return srp.CmdFields{Tag: 1, CDB: cdb(opRead, 0, 4096), In: p.table(8, 2)}
	}},
	{"immediate write", func(p *peer) srp.CmdFields {
		return srp.CmdFields{Tag: 1, CDB: cdb(opWrite, 0, 4096),
			Out: srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, 4096), ImmediateOffset: 68}}
	}},
}

func TestCommandsAllocateNothing(t *testing.T) {
	for _, c := range steadyCases {
		t.Run(c.name, func(t *testing.T) {
			s := newStepper(t, 68)
			n := s.load(c.build(s.p))
			for range 300 { // to the steady state
				s.exchange(n)
			}
			if a := testing.AllocsPerRun(500, func() { s.exchange(n) }); a != 0 {
				t.Errorf("%v allocations", a)
			}
		})
	}
}

func BenchmarkCommand(b *testing.B) {
	for _, c := range steadyCases {
		b.Run(c.name, func(b *testing.B) {
			s := newStepper(b, 68)
			n := s.load(c.build(s.p))
			b.ReportAllocs()
			for b.Loop() {
				s.exchange(n)
			}
		})
	}
}
