package conn

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

func fill(b []byte, seed uint64) {
	r := rand.NewPCG(seed, 7)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}

func TestDataArrivesByEveryDescriptorForm(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{immediate: 68})
	pieces := func(list ...uint32) (d []srp.Desc) { // of these lengths, apart and backwards in memory
		at := uint32(512 << 10)
		for _, n := range list {
			at -= n + 100
			d = append(d, p.desc(at, n))
		}
		return d
	}
	many := make([]uint32, 200)
	for i := range many {
		many[i] = uint32(i%7) * 3 // zero-length entries among them
	}
	var total uint32
	for _, n := range many {
		total += n
	}
	cases := []struct {
		name string
		n    uint32
		data srp.DataFields
	}{
		{"direct", 4096, direct(p.desc(512, 4096))},
		{"direct of one byte", 1, direct(p.desc(513, 1))},
		{"direct longer than the command", 512, direct(p.desc(512, 4096))},
		{"indirect of one", 4096, indirect(pieces(4096)...)},
		{"indirect of two", 8192, indirect(pieces(4096, 4096)...)},
		{"indirect of odd pieces", 1000, indirect(pieces(1, 0, 998, 1)...)},
		{"indirect that begins and ends empty", 512, indirect(pieces(0, 0, 512, 0)...)},
		{"indirect of many", total, indirect(pieces(many...)...)},
	}
	for i, c := range cases {
		tag := srp.Tag(0x0102030405060708 + uint64(i)<<32)
		fill(p.mem, uint64(i))
		sent := gather(p, c.data.List)[:c.n]
		p.write(tag, 300, c.n, c.data)
		if r := p.rsp(tag); r.Status() != 0 || r.Delta() != 1 {
			t.Fatalf("%s: write: % x", c.name, []byte(r))
		}
		g.run(func() {
			if !bytes.Equal(g.disk.data[300:300+c.n], sent) {
				t.Errorf("%s: other data was written", c.name)
			}
		})
		before := bytes.Clone(p.mem)
		want := make([]byte, c.n)
		fill(want, uint64(i)+1000)
		g.run(func() { copy(g.disk.data[5000:], want) })
		p.read(tag, 5000, c.n, c.data)
		if r := p.rsp(tag); r.Status() != 0 {
			t.Fatalf("%s: read: % x", c.name, []byte(r))
		}
		if !bytes.Equal(gather(p, c.data.List)[:c.n], want) {
			t.Fatalf("%s: other data was read", c.name)
		}
		scatter(p, c.data.List, gatherFrom(before, p, c.data.List))
		if !bytes.Equal(p.mem, before) {
			t.Fatalf("%s: memory outside the descriptors was written", c.name)
		}
	}
	imm := make([]byte, 5000)
	fill(imm, 99)
	p.write(1, 0, 5000, srp.DataFields{Format: srp.FormatImmediate, Immediate: imm, ImmediateOffset: 68})
	p.rsp(1)
	g.run(func() {
		if !bytes.Equal(g.disk.data[:5000], imm) {
			t.Error("immediate: other data was written")
		}
	})
	g.settled(p)
}

func gather(p *peer, list []srp.Desc) []byte { return gatherFrom(p.mem, p, list) }

func gatherFrom(mem []byte, p *peer, list []srp.Desc) (b []byte) {
	for _, d := range list {
		off := d.Addr - p.reg.Addr()
		b = append(b, mem[off:off+uint64(d.Length)]...)
	}
	return b
}

func scatter(p *peer, list []srp.Desc, b []byte) {
	for _, d := range list {
		b = b[copy(p.mem[d.Addr-p.reg.Addr():][:d.Length], b):]
	}
}

// settled fails if a lease, a credit or a command is still out.
func (g *rig) settled(p *peer) {
	g.t.Helper()
	g.run(func() {
		if s := g.arena.Stats(); s.Held != 0 || s.Waiting != 0 || s.Free != s.Size {
			g.t.Errorf("buffers are out: %+v", s)
		}
		if s := g.reactor.TableStats(); s.Held != 0 || s.Waiting != 0 || s.Faults != 0 {
			g.t.Errorf("table room is out: %+v", s)
		}
		if p == nil {
			if g.pool != nil && g.pool.Stats() != (PoolStats{Depth: g.pool.Depth()}) {
				g.t.Errorf("receives are out: %+v", g.pool.Stats())
			}
			return
		}
		window, active, owed := p.ch.m.Credits()
		if window != uint32(g.plan.Credits) || active != 0 || owed != 0 {
			g.t.Errorf("credits: %d in the window, %d active, %d owed, of %d", window, active, owed, g.plan.Credits)
		}
	})
}

func TestMalformedCommandsGetTheirAnswer(t *testing.T) {
	leaktest.Check(t)
	// Byte offsets are those of SRP_CMD with a direct descriptor at 48.
	cases := []struct {
		name   string
		cut    int // bytes sent, 0 for all
		change func(b []byte)
		want   string // the unit that answers
		ends   bool
	}{
		{name: "table length not a multiple of 16", change: func(b []byte) { b[63] = 33 }, want: check},
		{name: "table longer than the list", change: func(b []byte) { b[63] = 0x30 }, want: check},
		{name: "list longer than the table", change: func(b []byte) { b[63] = 0x10 }, want: check},
		{name: "total above the sum", change: func(b []byte) { b[64] = 0x7f }, want: check},
		{name: "address wraps", change: func(b []byte) { copy(b[68:], "\xff\xff\xff\xff\xff\xff\xff\xff") }, want: check},
		{name: "transfer above the limit", change: func(b []byte) { copy(b[64:], "\x01\x00\x10\x00"); copy(b[80:], "\x02\x00\x00\x00") }, want: check},
		{name: "task attribute 3", change: func(b []byte) { b[29] = 3 }, want: check},
		{name: "list outside the unit", cut: 99, want: logout8, ends: true},
		{name: "descriptor outside the unit", cut: 60, want: logout8, ends: true},
		{name: "shorter than an SRP_CMD", cut: 47, want: logout8, ends: true},
		{name: "additional CDB outside the unit", change: func(b []byte) { b[31] = 0xfc }, want: logout8, ends: true},
		{name: "data-in format 3", change: func(b []byte) { b[5] = 3 }, want: logout7, ends: true},
		{name: "data-out format 4", change: func(b []byte) { b[5] = 0x40 }, want: logout6, ends: true},
		{name: "immediate, not negotiated", change: func(b []byte) { b[5] = 0x30 }, want: logout6, ends: true},
		{name: "unknown type", change: func(b []byte) { b[0] = 0x7f }, want: logout2, ends: true},
		{name: "login request", change: func(b []byte) { b[0] = 0 }, want: logout2, ends: true},
		{name: "response", change: func(b []byte) { b[0] = 0xc1 }, want: logout2, ends: true},
		{name: "credit response to nothing", change: func(b []byte) { b[0] = 0x41 }, want: logout3, ends: true},
		{name: "asynchronous event response to nothing", change: func(b []byte) { b[0] = 0x42 }, want: logout3, ends: true},
		{name: "short task management", cut: 47, change: func(b []byte) { b[0] = 1 }, want: logout8, ends: true},
		{name: "nothing", cut: -1, want: logout8, ends: true},
		{name: "initiator logout", change: func(b []byte) { b[0] = 3 }, ends: true},
	}
	// A logout is waited for as long as it takes on a busy machine.
	g := newRig(t, func(g *rig) { g.tables, g.timing.Logout = 0, time.Minute })
	for _, c := range cases {
		p := g.login(login{})
		f := srp.CmdFields{Tag: 0x0500010000000000, CDB: cdb(opRead, 0, 100), In: indirect(p.desc(0, 50), p.desc(100, 50))}
		unit := f.Append(nil)
		if c.change != nil {
			c.change(unit)
		}
		if c.cut != 0 {
			unit = unit[:max(c.cut, 0)]
		}
		p.send(unit)
		if c.ends {
			units := p.disconnected()
			if c.want == "" && len(units) != 0 || c.want != "" && (len(units) != 1 || hex.EncodeToString(units[0]) != c.want) {
				t.Errorf("%s: answered %x, want %s", c.name, units, c.want)
			}
			<-p.done
			g.settled(nil)
			continue
		}
		if got := hex.EncodeToString(p.unit()); got != c.want {
			t.Errorf("%s: answered\n%s, want\n%s", c.name, got, c.want)
		}
		p.read(1, 0, 100, f.In) // the channel goes on
		p.rsp(1)
		g.settled(p)
		p.end.Disconnect()
		<-p.done
	}
}

const (
	check   = "c1000000000000010500010000000000" + "00000202000000000000000000000012" + "00000000" + "700005000000000a0000000024000000" + "0000"
	logout2 = "80000000000000020000000000000000"
	logout3 = "80000000000000030000000000000000"
	logout6 = "80000000000000060000000000000000"
	logout7 = "80000000000000070000000000000000"
	logout8 = "80000000000000080000000000000000"
)

func TestImmediateDataIsHeldAgainstWhatCame(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	base := srp.CmdFields{Tag: 5, CDB: cdb(opWrite, 0, 100), Out: srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, 100), ImmediateOffset: 80}}
	for _, c := range []struct {
		name   string
		length string
		cut    int
	}{{"one byte more", "\x00\x00\x00\x65", 0}, {"wraps 32 bits", "\xff\xff\xff\xb0", 0}, {"all ones", "\xff\xff\xff\xff", 0}, {"truncated", "\x00\x00\x00\x64", 150}} {
		p := g.login(login{immediate: 80})
		unit := base.Append(nil)
		copy(unit[48:], c.length)
		if c.cut > 0 {
			unit = unit[:c.cut]
		}
		p.send(unit)
		if units := p.disconnected(); len(units) != 1 || hex.EncodeToString(units[0]) != logout8 {
			t.Errorf("%s: answered %x", c.name, units)
		}
		if s := <-p.done; s.Cause != channel.CauseProtocol || s.Err == nil || s.BytesOut != 0 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	g.settled(nil)
}

// TestOneRequestTooManyEndsTheChannel is case B06.4: and nobody else's.
func TestOneRequestTooManyEndsTheChannel(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p, q := g.login(login{}), g.login(login{})
	for i := range g.plan.Credits + 1 {
		p.hold(srp.Tag(i))
	}
	if units := p.disconnected(); len(units) != 1 || units[0][0] != byte(srp.OpTLogout) {
		t.Fatalf("answered %x", units)
	}
	if s := <-p.done; s.Cause != channel.CauseProtocol || s.Aborted != uint64(g.plan.Credits) {
		t.Fatalf("%+v", s)
	}
	q.read(1, 0, 10, direct(q.desc(0, 10)))
	q.rsp(1)
	g.settled(q)
}

func TestCreditsAreConserved(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	rnd := rand.New(rand.NewPCG(3, 3))
	window, out := g.plan.Credits, map[srp.Tag]bool{}
	take := func() {
		r, err := srp.ParseRsp(p.unit())
		if err != nil || !out[r.Tag()] {
			t.Fatalf("% x: %v", []byte(r), err)
		}
		delete(out, r.Tag())
		window += int(r.Delta())
	}
	for i := range 3000 {
		for window < 2 || len(out) > 8 && rnd.IntN(2) == 0 {
			take()
		}
		tag := srp.Tag(i)
		window--
		out[tag] = true
		switch rnd.IntN(5) {
		case 0:
			p.read(tag, 0, 4096, direct(p.desc(0, 4096)))
		case 1:
			p.write(tag, 0, 4096, indirect(p.desc(0, 2048), p.desc(2048, 2048)))
		case 2:
			p.read(tag, 0, 10, indirect(p.desc(0, 5))) // the handler wants more than there is
		case 3:
			f := srp.CmdFields{Tag: tag, CDB: cdb(0xff, 0, 0), Attr: 3}
			p.send(f.Append(nil))
		case 4:
			f := srp.TskMgmtFields{Tag: tag, Function: srp.FuncAbortTask, Managed: 1 << 40}
			p.send(f.Append(nil))
		}
	}
	for len(out) > 0 {
		take()
	}
	if window != g.plan.Credits {
		t.Errorf("the initiator's idle window is %d of %d", window, g.plan.Credits)
	}
	g.settled(p)
}

func TestNoResponseIsLostWhenTheSendQueueIsSmall(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.plan.SendWork = 16 })
	p := g.login(login{})
	var list []srp.Desc
	for i := range 200 {
		list = append(list, p.desc(uint32(i)*64, 10))
	}
	for round := range 3 {
		for i := range g.plan.Credits {
			p.write(srp.Tag(i), uint32(i)*2000, 2000, indirect(list...))
		}
		for i := range g.plan.Credits {
			p.rsp(srp.Tag(i))
		}
		if round == 1 {
			g.dev.LimitSends(6)
		}
		for i := range g.plan.Credits {
			p.read(srp.Tag(i), uint32(i)*2000, 2000, indirect(list...))
		}
		for i := range g.plan.Credits {
			p.rsp(srp.Tag(i))
		}
	}
	g.settled(p)
}

func TestLongTransfersGoInPieces(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	g.run(func() { p.ch.limit = 1000 })
	fill(p.mem[:100000], 5)
	p.write(1, 0, 100000, indirect(p.desc(0, 70000), p.desc(70000, 30000)))
	p.rsp(1)
	g.run(func() {
		if !bytes.Equal(g.disk.data[:100000], p.mem[:100000]) {
			t.Error("other data was written")
		}
	})
	p.read(2, 0, 100000, direct(p.desc(200000, 100000)))
	p.rsp(2)
	if !bytes.Equal(p.mem[200000:300000], p.mem[:100000]) {
		t.Error("other data was read")
	}
	if s := g.dev.Stats(); s["reads"] < 100 || s["writes"] < 100 {
		t.Errorf("%v", s)
	}
}

func TestRemoteAccessErrorEndsThatChannelOnly(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	for _, write := range []bool{true, false} {
		p, q := g.login(login{}), g.login(login{})
		bad := p.desc(0, 4096)
		bad.Key ^= 1 << 20
		if write {
			p.write(1, 0, 4096, direct(bad))
		} else {
			p.read(1, 0, 4096, direct(bad))
		}
		p.disconnected()
		s := <-p.done
		if s.Cause != channel.CauseTransport || s.Fault.Status != rdma.StatusRemoteAccess || s.FailedWork != 1 {
			t.Errorf("%+v", s)
		}
		q.read(1, 0, 10, direct(q.desc(0, 10)))
		q.rsp(1)
		g.settled(q)
		q.end.Disconnect()
		<-q.done
	}
}
