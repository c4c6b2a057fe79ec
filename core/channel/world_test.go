package channel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// world plays everything around a Machine at random: an initiator that keeps to
// its window, a handler, leases, and a QP that completes in order. It holds the
// Machine to what design.md promises.
type world struct {
	t   *testing.T
	rng *rand.Rand
	m   *Machine
	log []string

	window   int // as the initiator counts
	nextTag  srp.Tag
	sent     map[srp.Tag]int // requests sent and not answered, per tag
	vanished map[srp.Tag]bool

	posted  map[uint32]bool // receive buffers of the QP
	inUse   map[uint32]bool // receive buffers of the Machine
	queue   []Action        // the send queue: ActRespond, ActCredReq, ActLogout, in order
	seen    int             // how many of queue the initiator has received
	credReq []srp.Tag       // SRP_CRED_REQs to answer

	live   map[Slot]*task
	ops    map[uint32]Scope
	opSeq  map[uint32]uint64
	nextOp uint32
	asked  bool // the Machine has asked to disconnect
	qpDead bool // everything flushes
	gone   bool // no completion may come any more
	closed bool
}

// task is what the world knows of a slot in use.
type task struct {
	tag      srp.Tag
	lun      srp.LUN
	isCmd    bool
	seq      uint64
	handler  bool // the handler owes EvFinished or EvManaged
	doomed   bool // ActAbort was given
	wanted   bool // a buffer was asked for
	leasing  bool
	fetching bool
	writing  bool // ActWrite without ActRespond
	answered bool
	tm       srp.TskMgmt
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 99)), sent: map[srp.Tag]int{}, vanished: map[srp.Tag]bool{},
		posted: map[uint32]bool{}, inUse: map[uint32]bool{}, live: map[Slot]*task{}, ops: map[uint32]Scope{}, opSeq: map[uint32]uint64{},
	}
	cfg := Config{
		Credits: 2 + w.rng.Uint32N(8), Limits: testLimits, MaxTIIU: 512, Held: w.rng.IntN(4) == 0,
	}
	cfg.Slots = int(cfg.Credits) + w.rng.IntN(3)
	cfg.Recvs = int(cfg.Credits) + 1 + w.rng.IntN(3)
	w.m, w.window = New(cfg), int(cfg.Credits)
	for i := range uint32(cfg.Recvs) {
		w.posted[i] = true
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	last := w.log[max(0, len(w.log)-40):]
	w.t.Fatalf("%s\nlast steps:\n%s", fmt.Sprintf(format, args...), strings.Join(last, "\n"))
}

func (w *world) step(ev Event) {
	w.t.Helper()
	acts := w.m.Step(ev, nil)
	w.log = append(w.log, fmt.Sprintf("%s %d: %s", eventNames[ev.Kind], ev.Slot.Index(), showAll(acts)))
	for _, a := range acts {
		w.do(a)
	}
	w.check()
}

// check holds the invariants that must hold after each Step.
func (w *world) check() {
	win, unanswered, owed := w.m.Credits()
	if w.m.State() == Live && win+unanswered+owed != w.m.cfg.Credits {
		w.failf("window %d + unanswered %d + owed %d", win, unanswered, owed)
	}
	if w.m.State() == Live && len(w.posted) < int(win) {
		w.failf("%d receives for a window of %d", len(w.posted), win)
	}
	for s, k := range w.live {
		if k.writing {
			w.failf("data of slot %d was written without a response", s.Index())
		}
	}
}

func (w *world) task(a Action) *task {
	k := w.live[a.Slot]
	if k == nil {
		w.failf("%s names no slot in use", show(a))
	}
	return k
}

// do carries an action out and checks that it was allowed.
func (w *world) do(a Action) {
	if w.closed {
		w.failf("%s after ActClosed", show(a))
	}
	switch a.Kind {
	case ActStart:
		c := w.m.Cmd(a.Slot)
		w.begin(a, &task{tag: c.Tag(), lun: c.LUN(), isCmd: true, handler: true})
	case ActManage:
		tm := w.m.TaskMgmt(a.Slot)
		k := &task{tag: tm.Tag(), lun: tm.LUN(), handler: true, tm: tm}
		w.begin(a, k)
		w.noVictims(a, scopeOf(tm), w.slotSeq(a.Slot), !aborts(tm.Function()))
	case ActLease:
		w.task(a).leasing = true
	case ActUnlease:
		if k := w.task(a); !k.leasing {
			w.failf("%s without a lease", show(a))
		} else {
			k.leasing = false
		}
	case ActFetch, ActCopy, ActWrite:
		w.rdma(a)
	case ActReady:
		w.task(a).handler = true
	case ActAbort:
		k := w.task(a)
		if k.doomed {
			w.failf("%s twice", show(a))
		}
		k.doomed, k.handler = true, true
	case ActRespond:
		w.respond(a)
	case ActRepost:
		if w.posted[a.Buf] || !w.inUse[a.Buf] || w.asked {
			w.failf("%s of a buffer that is not free", show(a))
		}
		delete(w.inUse, a.Buf)
		w.posted[a.Buf] = true
	case ActRelease:
		w.release(a)
	case ActCredReq, ActLogout:
		w.queue = append(w.queue, a)
	case ActAborted:
		w.noVictims(a, w.ops[a.Op], w.opSeq[a.Op]+1, false)
		delete(w.ops, a.Op)
	case ActDisconnect:
		if w.asked {
			w.failf("disconnected twice")
		}
		w.asked, w.qpDead = true, true
	case ActDestroy:
		w.asked = true
		w.lose()
	case ActClosed:
		w.closed = true
	}
}

// slotSeq looks up when a request was given its slot, by the Machine's count.
func (w *world) slotSeq(s Slot) uint64 { return w.m.slots[s.Index()].seq }

func (w *world) begin(a Action, k *task) {
	if w.live[a.Slot] != nil {
		w.failf("%s of a slot in use", show(a))
	}
	k.seq = w.slotSeq(a.Slot)
	w.live[a.Slot] = k
}

// rdma checks that nothing touches the initiator's memory after the command was
// cut short or answered.
func (w *world) rdma(a Action) {
	k := w.task(a)
	if k.doomed || k.answered || w.asked {
		w.failf("%s after the end of the command", show(a))
	}
	k.fetching = a.Kind == ActFetch
	k.writing = a.Kind == ActWrite
}

// noVictims checks that no command an abort means is left.
func (w *world) noVictims(a Action, s Scope, before uint64, none bool) {
	o := op{scope: s, before: before, none: none}
	for h, k := range w.live {
		if k.isCmd && o.means(&slot{state: executing, isCmd: true, seq: k.seq, tag: k.tag, lun: k.lun}) {
			w.failf("%s while slot %d is in use", show(a), h.Index())
		}
	}
}

func (w *world) respond(a Action) {
	r := w.m.AppendRsp(a.Slot, nil)
	p, err := srp.ParseRsp(r)
	if err != nil || len(r) > 512 || p.Delta() < 1 {
		w.failf("bad response %x: %v", r, err)
	}
	k := w.live[a.Slot]
	if k == nil { // refused or overlapped: never started
		k = &task{tag: p.Tag(), isCmd: true, seq: w.slotSeq(a.Slot), lun: w.m.slots[a.Slot.Index()].lun}
		w.live[a.Slot] = k
	}
	if k.answered || k.handler || k.fetching || k.leasing || w.asked || k.tag != p.Tag() {
		w.failf("%s of %+v", show(a), *k)
	}
	k.answered, k.writing = true, false
	if w.sent[p.Tag()] == 0 {
		w.failf("%s: nobody waits for tag %v", show(a), p.Tag())
	}
	w.queue = append(w.queue, a)
}

func (w *world) release(a Action) {
	k := w.live[a.Slot]
	if k == nil { // an overlapped or managing request that ends without a word
		return
	}
	if k.handler || k.fetching || k.leasing {
		w.failf("%s of a slot that is used: %+v", show(a), *k)
	}
	if !k.answered && k.isCmd {
		w.vanished[k.tag] = true
	}
	delete(w.live, a.Slot)
}
