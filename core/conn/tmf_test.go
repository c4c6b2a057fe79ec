package conn

import (
	"encoding/hex"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestTaskManagementAnswersAreWhole is case B06.1 and B06.2: response data and RSPVALID are there on success, too, because
// an initiator takes their absence for a failure.
func TestTaskManagementAnswersAreWhole(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	for _, c := range []struct {
		name     string
		function srp.TaskFunction
		code     srp.RspCode // that the handler gives
	}{
		{"logical unit reset", srp.FuncLUNReset, srp.RspComplete},
		{"abort of a task that never was", srp.FuncAbortTask, srp.RspComplete},
		{"clear ACA", srp.FuncClearACA, srp.RspNotSupported},
		{"unknown function", 0x7f, srp.RspNotSupported},
		{"unknown unit", srp.FuncLUNReset, srp.RspFailed},
	} {
		g.run(func() {
			g.disk.onTM = func(tm *TaskManagement) {
				if tm.IU.Function() != c.function || tm.Aborted != 0 {
					t.Errorf("%s: handed on as %v, %d aborted", c.name, tm.IU.Function(), tm.Aborted)
				}
				tm.Finish(c.code)
			}
		})
		f := srp.TskMgmtFields{Tag: 0x0100000080000000, Function: c.function, Managed: 0xffffffff}
		p.send(f.Append(nil))
		want := "c1000000" + "00000001" + "0100000080000000" + "0000" + "01" + "00" + "00000000" + "00000000" + "00000000" + "00000004" + "000000" +
			hex.EncodeToString([]byte{byte(c.code)})
		if got := hex.EncodeToString(p.unit()); got != want {
			t.Errorf("%s: answered\n%s, want\n%s", c.name, got, want)
		}
	}
	g.settled(p)
}

func TestTaskManagementThatTakesItsTime(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	var kept *TaskManagement
	g.run(func() { g.disk.onTM = func(tm *TaskManagement) { kept = tm } })
	f := srp.TskMgmtFields{Tag: 8, Function: srp.FuncLUNReset}
	p.hold(7)
	g.expectNews("held")
	p.send(f.Append(nil))
	g.waitFor(func() bool { return kept != nil })
	p.read(9, 0, 10, direct(p.desc(0, 10))) // commands after it are not held up
	p.rsp(9)
	p.end.Disconnect()
	g.waitFor(func() bool { return p.ch.m.State().String() == "draining" })
	select {
	case <-p.done:
		t.Fatal("the channel ended under a function")
	default:
	}
	g.run(func() {
		if kept.Aborted != 1 || kept.Session() != p.ch.Session() {
			t.Errorf("%d aborted", kept.Aborted)
		}
		kept.Finish(srp.RspComplete)
	})
	<-p.done
	g.settled(nil)
}
