package main

import (
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

func TestMalformedUnitIsAnsweredAsSpecifiedAndHarmsNoOtherSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	l := newLoad(t, dial(t, s, 0), 0, 16)
	end := l.background(t)
	h := newComputer(t)
	for _, row := range hostile.Units() {
		if err := hostile.Try(t, h.peer(s), loginRequest(), row); err != nil {
			t.Errorf("%s: %v", row.Name, err)
		}
	}
	end()
	if l.requests == 0 {
		t.Error("the other session has made no request")
	}
	eventually(t, "the hostile sessions are gone", func() bool { return len(s.sessions(t)) == 1 })
}

func TestRequestWithoutACreditEndsTheChannel(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(lunWithPlugin(0, "ice"), "--login-queue-depth", "4")...)
	s.install(t, "ice")
	s.start(t)
	session := dial(t, s, 0)
	c, granted := hostile.Login(t, newComputer(t).peer(s), loginRequest())
	c.Put((&srp.CmdFields{Tag: 1, LUN: lunOf(0), CDB: make([]byte, 6)}).Append(nil))
	c.Unit() // the unit attention
	pid := s.process(t, "ice")
	freeze(t, pid) // so that no credit comes back
	var units [][]byte
	for i := range granted.Delta + 1 {
		cdb := initiator.Read16(0, 10)
		f := srp.CmdFields{Tag: srp.Tag(100 + i), LUN: lunOf(0), CDB: cdb[:], In: srp.DataFields{
			Format: srp.FormatDirect, List: []srp.Desc{{Addr: 0x1000, Key: 1, Length: 5120}},
		}}
		units = append(units, f.Append(nil))
	}
	c.Put(units...)
	if err := c.Expect(hostile.LogoutWith(srp.LogoutNoReason)); err != nil {
		t.Error(err)
	}
	kill(t, pid, syscall.SIGCONT)
	c.Close()
	if err := session.TestUnitReady(soon(t), lunOf(0)); err != nil {
		t.Errorf("the other session: %v", err)
	}
}
