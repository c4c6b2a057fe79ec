package conn

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// FuzzUnit sends any bytes as an information unit, and then a command that is in order. Whatever
// came first, the channel either answers the second, or has ended, and nothing is left of either.
func FuzzUnit(f *testing.F) {
	c := srp.CmdFields{Tag: 3, CDB: cdb(opRead, 0, 64), In: srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{Length: 64}}}}
	f.Add(c.Append(nil))
	c.In = srp.DataFields{Format: srp.FormatIndirect, List: []srp.Desc{{Length: 32}, {Length: 32}}}
	f.Add(c.Append(nil))
	c.In, c.CDB = srp.DataFields{}, cdb(opWrite, 0, 64)
	c.Out = srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, 64), ImmediateOffset: 68}
	f.Add(c.Append(nil))
	tm := srp.TskMgmtFields{Tag: 4, Function: srp.FuncLUNReset}
	f.Add(tm.Append(nil))
	f.Add(srp.AppendILogout(nil, 5))
	f.Fuzz(func(t *testing.T, unit []byte) {
		g := newRig(t)
		p := g.login(login{immediate: 68})
		p.send(unit[:min(len(unit), int(g.plan.MaxRequestIU))])
		good := srp.CmdFields{Tag: 1<<63 | 77, CDB: cdb(opRead, 0, 64), In: direct(p.desc(0, 64))}
		p.trySend(good.Append(nil))
		answered := false
		for !answered {
			c := p.end.Next()
			if c.Op == rdma.OpEvent && c.Event == rdma.EventDisconnected {
				<-p.done
				break
			}
			if c.Op == rdma.OpRecv && c.Status == rdma.StatusOK {
				b := p.in.Bytes()[c.ID*512:][:c.Bytes]
				if len(b) < 16 || b[0] != byte(srp.OpRsp) && b[0] != byte(srp.OpTLogout) && b[0] != byte(srp.OpCredReq) {
					t.Fatalf("got % x", b)
				}
				r, err := srp.ParseRsp(b)
				answered = err == nil && r.Tag() == good.Tag
			}
		}
		if !answered {
			p = nil
		}
		g.run(func() { g.disk.endAll() })
		g.waitFor(func() bool { return p == nil || g.idle(p) })
		g.settled(p)
	})
}

// endAll ends the held commands.
func (d *disk) endAll() {
	for len(d.held) > 0 {
		c := d.held[0]
		d.drop(c)
		c.Finish(Result{})
	}
}

// idle tells whether every request of a channel has been answered.
func (g *rig) idle(p *peer) bool {
	_, active, _ := p.ch.m.Credits()
	return active == 0 && g.arena.Stats().Held == 0
}
