package conn

import (
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// abortAll ends the commands of a peer without a response.
func (p *peer) abortAll() {
	p.g.t.Helper()
	done := make(chan uint32, 1)
	p.g.run(func() { p.ch.Abort(channel.Scope{AllLUNs: true}, func(n uint32) { done <- n }) })
	for range <-done {
		p.g.expectNews("abort")
	}
}

func (p *peer) wantUnit(want string) {
	p.g.t.Helper()
	if got := hex.EncodeToString(p.unit()); got != want {
		p.g.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestCreditsOfAnIdleChannelComeByRequest(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{solNot: true, notify: srp.LoginCredSolNot})
	for i := range srp.Tag(3) {
		p.hold(i)
		g.expectNews("held")
	}
	p.abortAll()
	p.wantUnit("81010000" + "00000003" + "0000000000000001")
	p.hold(9)
	g.expectNews("held")
	p.abortAll()                             // the first request is not answered: this credit waits
	p.read(10, 0, 10, direct(p.desc(0, 10))) // and goes out with a response
	if r := p.rsp(10); r.Delta() != 2 {
		t.Errorf("delta %d", r.Delta())
	}
	p.send(srp.AppendCredRsp(nil, 1))
	p.hold(11)
	g.expectNews("held")
	p.abortAll()
	p.wantUnit("81010000" + "00000001" + "0000000000000002")
	p.send(srp.AppendCredRsp(nil, 2))
	g.waitFor(func() bool { return !p.ch.m.Asking() })
	g.settled(p)
}

func TestEventsOfUnitsAreReportedOneByOne(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{solNot: true, notify: srp.LoginAerSolNot})
	sense := []byte{0x70, 0, 6, 7: 10, 12: 0x3f, 13: 0x0e, 17: 0}
	lun := srp.LUN{0, 3}
	g.run(func() {
		p.ch.Report(lun, sense)
		p.ch.Report(srp.LUN{0, 4}, sense)
		p.ch.Report(srp.LUN{0, 4}, sense) // says nothing new
	})
	report := func(tag, l string) string {
		return "82010000" + "00000000" + tag + "00000000" + l + "00000012" + "00000000" + "700006000000000a000000003f0e00000000"
	}
	p.wantUnit(report("0000000000000001", "0003000000000000"))
	p.hold(7)
	g.expectNews("held")
	p.abortAll() // its credit waits for the next request
	p.send(srp.AppendAerRsp(nil, 1))
	second := report("0000000000000002", "0004000000000000")
	p.wantUnit("82010000" + "00000001" + second[16:])
	p.send(srp.AppendAerRsp(nil, 2))
	p.read(9, 0, 10, direct(p.desc(0, 10)))
	p.rsp(9) // and no third report
	g.settled(p)
	g.run(func() {
		if s := p.ch.Stats(); s.Protocol.Reports != 2 {
			t.Errorf("%+v", s.Protocol)
		}
	})
}

func TestEventsAreForThoseWhoAsked(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	for _, l := range []login{{}, {solNot: true}, {notify: srp.LoginAerSolNot}} {
		p := g.login(l)
		g.run(func() { p.ch.Report(srp.LUN{}, []byte{0x70}) })
		p.read(1, 0, 10, direct(p.desc(0, 10)))
		p.rsp(1)
	}
}

func TestAnswersToTheWrongRequestEndTheChannel(t *testing.T) {
	leaktest.Check(t)
	for name, answer := range map[string][]byte{
		"another tag": srp.AppendAerRsp(nil, 2), "another request": srp.AppendCredRsp(nil, 1),
	} {
		g := newRig(t)
		p := g.login(login{solNot: true, notify: srp.LoginAerSolNot})
		g.run(func() { p.ch.Report(srp.LUN{}, nil) })
		p.unit()
		p.send(answer)
		if units := p.disconnected(); len(units) != 1 || hex.EncodeToString(units[0]) != logout3 {
			t.Errorf("%s: %x", name, units)
		}
	}
}

func TestInitiatorThatAnswersNothingLosesItsChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p := g.login(login{})
		p.hold(7)
		g.expectNews("held")
		start := time.Now()
		p.abortAll()
		p.unit()
		for time.Since(start) < DefaultTiming().Ask-time.Second { // it does other things meanwhile
			p.read(1, 0, 10, direct(p.desc(0, 10)))
			p.rsp(1)
			time.Sleep(time.Second / 2)
		}
		units := p.disconnected()
		if len(units) != 1 || hex.EncodeToString(units[0]) != "80000000000000010000000000000000" {
			t.Errorf("%x", units)
		}
		s := <-p.done
		if d := time.Since(start); d > DefaultTiming().Ask+time.Second || s.Cause != channel.CauseProtocol || !errors.Is(s.Err, srp.ProblemUnanswered) {
			t.Errorf("%v, %v after %v", s.Cause, s.Err, d)
		}
		g.settled(nil)
	})
}

// TestTaskManagementIsAnsweredInTime: by its handler or because of its own commands it takes too long, and has failed. What it has
// begun still ends, and since nobody was told that it has, with a status.
func TestTaskManagementIsAnsweredInTime(t *testing.T) {
	for _, stuck := range []string{"commands", "handler"} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t)
			g.timing.Task = 4 * time.Second
			p := g.login(login{})
			var kept *TaskManagement
			g.run(func() {
				g.disk.onAbort = func(*Command) {}
				g.disk.onTM = func(tm *TaskManagement) { kept = tm }
			})
			start := time.Now()
			if stuck == "commands" {
				p.hold(7)
				g.expectNews("held")
			}
			f := srp.TskMgmtFields{Tag: wireTag, Function: srp.FuncLUNReset}
			p.send(f.Append(nil))
			p.wantUnit("c1000000" + "00000001" + "0500010000000000" + "0000" + "01" + "00" + "00000000" + "00000000" + "00000000" + "00000004" + "00000005")
			if d := time.Since(start); d != g.timing.Task {
				t.Errorf("answered after %v", d)
			}
			f.Tag++ // another one may be asked for, and has a slot of its own
			f.Function = srp.FuncClearACA
			g.run(func() { g.disk.onTM = func(tm *TaskManagement) { tm.Finish(srp.RspNotSupported) } })
			p.send(f.Append(nil))
			if code, _ := p.rsp(wireTag + 1).Code(); code != srp.RspNotSupported {
				t.Errorf("code %d", code)
			}
			if stuck == "commands" {
				g.finishHeld(Result{})
				if r := p.rsp(7); r.Status() != 0x40 {
					t.Errorf("status %02xh, want TASK ABORTED", r.Status())
				}
			} else {
				g.run(func() { kept.Finish(srp.RspComplete) }) // too late to be told
			}
			p.read(9, 0, 10, direct(p.desc(0, 10)))
			p.rsp(9)
			g.settled(p)
			g.run(func() {
				if s := p.ch.Stats(); s.Protocol.Overdue != 1 || len(p.ch.clock.tasks) != 0 {
					t.Errorf("%+v, %d deadlines", s.Protocol, len(p.ch.clock.tasks))
				}
			})
		})
	}
}
