//go:build verbs

package verbs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs/ibsimtest"
)

// lab is the subnet of TestAgentOnASubnet: each of its parts goes on where the one before has left it.
type lab struct {
	*ibsimtest.Subnet
	agent, asker    *ibsimtest.Program
	primary, backup *ibsimtest.Program
}

// TestAgentOnASubnet is what a real subnet manager does to a port, and that the agent there can be found after each of it, within answerBound
// of the moment when the port is in order again.
//
// The simulation has no verbs device, so nobody tells of events: LID, SM and state changes are noticed at the port and told as an adapter's
// driver does (simAdapter), client reregistration and GID changes come from the test alone.
func TestAgentOnASubnet(t *testing.T) {
	l := &lab{Subnet: ibsimtest.New(t)}
	l.agent = l.StartRole("H1", "agent", "SIM_SET_ISSM=1") // before any manager asks
	for _, c := range []struct {
		name string
		f    func(*lab, *testing.T)
	}{
		{"PortWithoutASubnetManagerIsNormal", (*lab).withoutManager},
		{"PortGetsItsLIDFromTheSubnetManager", (*lab).getsLID},
		{"EveryAttributeIsAnsweredToAnotherNode", (*lab).answers},
		{"WhatIsNotServedIsRefusedWithItsStatus", (*lab).refuses},
		{"FreshProcessListsThePort", (*lab).lists},
		{"FoundAfterHandoverToAnotherSubnetManager", (*lab).handover},
		{"FoundAtItsNewLIDAfterALIDChange", (*lab).lidChange},
		{"FoundAgainAfterTheLinkWasDown", (*lab).bounce},
		{"FoundAfterClientReregister", (*lab).reregister},
		{"HundredOfEachEventLeaveOneRegistration", (*lab).storm},
		{"ThousandQueriesLeaveNothingBehind", (*lab).many},
	} {
		if !t.Run(c.name, func(t *testing.T) { c.f(l, t) }) {
			return
		}
	}
}

// state waits for a state of the agent's port.
func (l *lab) state(t *testing.T, what string, ok func(node) bool) (n node) {
	t.Helper()
	ibsimtest.WaitUntil(t, what, func() bool {
		n = node{}
		l.agent.Ask(t, &n, "state")
		return ok(n)
	})
	return n
}

// inOrder tells whether the port is in service.
func inOrder(n node) bool {
	return n.State == ib.PortActive && n.LID.IsUnicast() && n.SMLID.IsUnicast()
}

// found checks that the agent answers at a LID, and has one registration for it.
func (l *lab) found(t *testing.T, lid ib.LID) {
	t.Helper()
	var wrong string
	if l.asker.Ask(t, &wrong, "discover %d", lid); wrong != noError {
		t.Error(wrong)
	}
	var n node
	if l.agent.Ask(t, &n, "state"); n.Registrations != 1 || !n.Discovery || n.Failed != 0 || n.LID != lid {
		t.Errorf("%+v", n)
	}
}

// noError is an error that there is not, as askerRole prints it.
var noError = fmt.Sprint(error(nil))

// heard tells whether an event was handled.
func (n node) heard(k rdma.AsyncKind) bool {
	return slices.ContainsFunc(n.Events, func(s string) bool { return strings.HasPrefix(s, k.String()+": ") })
}

func (l *lab) withoutManager(t *testing.T) {
	n := l.state(t, "registered", func(n node) bool { return n.Discovery })
	if n.LID != 0 || n.State == ib.PortActive || n.Registrations != 1 {
		t.Errorf("%+v", n)
	}
}

func (l *lab) getsLID(t *testing.T) {
	l.primary = l.StartManager(ibsimtest.Manager{Node: "H0", Priority: 10})
	l.state(t, "the port has a LID, and told so", func(n node) bool {
		return inOrder(n) && n.heard(rdma.AsyncPortActive) && n.heard(rdma.AsyncLIDChange) && n.heard(rdma.AsyncSMChange)
	})
}

func (l *lab) answers(t *testing.T) {
	l.asker = l.StartRole("H2", "asker")
	l.found(t, l.state(t, "the port is in order", inOrder).LID)
}

func (l *lab) refuses(t *testing.T) {
	var wrong string
	if l.asker.Ask(t, &wrong, "refusals %d", l.state(t, "the port is in order", inOrder).LID); wrong != noError {
		t.Error(wrong)
	}
}

func (l *lab) lists(t *testing.T) {
	n := l.state(t, "the port is in order", inOrder)
	p := l.StartRole("H1", "list")
	var list []UMADAdapter
	p.Ask(t, &list, "")
	if len(list) != 1 || len(list[0].Ports) != 1 || list[0].NodeGUID == 0 {
		t.Fatalf("%+v", list)
	}
	got := list[0].Ports[0]
	if got.Num != 1 || got.GUID != n.GUID || got.LID != n.LID || got.SMLID != n.SMLID || !got.Active || got.State != ib.PortActive ||
		got.Link != ib.LinkInfiniBand || got.Rate == 0 || got.Capabilities == 0 {
		t.Errorf("%+v, the agent's port is %+v", got, n)
	}
	if len(got.GIDs) != 1 || got.GIDs[0] != ib.MakeGID(ib.LinkLocalPrefix, n.GUID) || len(got.PKeys) == 0 || !got.PKeys[0].IsFull() {
		t.Errorf("GIDs %v, P_Keys %v", got.GIDs, got.PKeys)
	}
}

// handover is case B07's first step: the master is killed. The other manager has stood by, and keeps the LIDs.
func (l *lab) handover(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	l.backup = l.StartManager(ibsimtest.Manager{Node: "H2", Priority: 1})
	l.backup.Says(t, "Entering STANDBY state")
	// What the one has asked the other has to be answered first: in the simulation a request never times out. The manager that
	// stands by is stopped, so that it asks no more; then the master answers what it was asked before us.
	l.backup.Signal(t, syscall.SIGSTOP)
	ibsimtest.WaitUntil(t, "the manager that stands by is stopped", l.backup.Stopped)
	l.agent.Ask(t, &node{}, "manager %d", before.SMLID)
	l.primary.Kill()
	l.backup.Signal(t, syscall.SIGCONT)
	l.backup.Says(t, "Entering MASTER state")
	after := l.state(t, "the port has another SM", func(n node) bool { return inOrder(n) && n.SMLID != before.SMLID })
	if after.LID != before.LID {
		t.Errorf("LID %d became %d", before.LID, after.LID)
	}
	l.found(t, after.LID)
}

// lidChange is a new manager that gives the port another LID.
func (l *lab) lidChange(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	l.backup.Kill()
	const lid = 40
	l.primary = l.StartManager(ibsimtest.Manager{Node: "H0", Priority: 10, LIDs: map[string]int{before.GUID.String(): lid}})
	l.primary.Says(t, "Entering MASTER state")
	after := l.state(t, "the port has the new LID", func(n node) bool { return inOrder(n) && n.LID == lid })
	if after.SMLID == before.SMLID {
		t.Errorf("the SM is still at LID %d", after.SMLID)
	}
	l.found(t, lid)
}

func (l *lab) bounce(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	l.Sim.Write(t, `Unlink "H1"[1]`)
	down := l.state(t, "the port is down", func(n node) bool { return n.State == ib.PortDown })
	if down.LID != 0 || down.SMLID != 0 || down.Registrations != 1 {
		t.Errorf("with the link down: %+v", down)
	}
	l.Sim.Write(t, `ReLink "H1"[1]`)
	after := l.state(t, "the port is up again", inOrder)
	if after.LID != before.LID {
		t.Errorf("LID %d became %d", before.LID, after.LID)
	}
	l.found(t, after.LID)
}

func (l *lab) reregister(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	l.agent.Ask(t, &node{}, "event %d", rdma.AsyncClientReregister)
	after := l.state(t, "handled", func(n node) bool { return n.heard(rdma.AsyncClientReregister) })
	if after.Reads <= before.Reads {
		t.Errorf("the port was not read again: %d and %d readings", before.Reads, after.Reads)
	}
	l.found(t, after.LID)
}

// storm is case B07's third step: a hundred of each event, in any order.
func (l *lab) storm(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	kinds := []rdma.AsyncKind{rdma.AsyncPortActive, rdma.AsyncPortError, rdma.AsyncLIDChange, rdma.AsyncPKeyChange, rdma.AsyncSMChange,
		rdma.AsyncClientReregister, rdma.AsyncGIDChange}
	storm := slices.Repeat(kinds, 100)
	rand.Shuffle(len(storm), func(i, j int) { storm[i], storm[j] = storm[j], storm[i] })
	for _, k := range append(storm, rdma.AsyncPortActive) {
		l.agent.Ask(t, &node{}, "event %d", k)
	}
	after := l.state(t, "the port is in order", inOrder)
	if after.LID != before.LID || after.SMLID != before.SMLID {
		t.Errorf("%+v before, %+v after", before, after)
	}
	l.found(t, after.LID)
	l.leftNothing(t, before)
}

func (l *lab) many(t *testing.T) {
	before := l.state(t, "the port is in order", inOrder)
	var wrong string
	if l.asker.Ask(t, &wrong, "thousand %d", before.LID); wrong != noError {
		t.Error(wrong)
	}
	after := l.state(t, "the answers are counted", func(n node) bool { return n.Answered >= before.Answered+1000 })
	if after.Failed != 0 || after.Dropped != before.Dropped {
		t.Errorf("%d answers failed, %d queries were dropped", after.Failed, after.Dropped)
	}
	l.leftNothing(t, before)
}

// leftNothing waits until the agent has no more goroutines and descriptors than before.
func (l *lab) leftNothing(t *testing.T, before node) {
	t.Helper()
	l.state(t, "as many goroutines and descriptors as before", func(n node) bool {
		return n.Goroutines <= before.Goroutines && n.Descriptors <= before.Descriptors
	})
}
