package channel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// world plays everything around a Machine at random: an initiator that keeps to
// its window, a handler, leases, and a QP that completes in order. It holds the
// Machine to what design.md promises.
type world struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	m     *Machine
	acts  []Action
	found []Slot
	log   [40]logged // the last of them
	steps int

	window   int // as the initiator counts: what it has seen
	login    int // the delta of the login
	requests int // sent
	deltas   int // of everything handed to the QP
	nextTag  srp.Tag
	sent     map[srp.Tag]int // requests sent and not answered, per tag
	twice    map[srp.Tag]bool
	vanished map[srp.Tag]bool
	silent   int // requests that the driver never had and that ended without a word

	posted  map[uint32]bool // receive buffers of the QP
	inUse   map[uint32]bool // receive buffers of the Machine
	queue   []Action        // the send queue: what is sent, in order
	seen    int             // how many of queue the initiator has received
	asked   []Action        // requests of the target that the initiator has to answer
	late    []Slot          // task management that was answered for the handler, who still owes EvManaged
	watched []Slot

	live   map[Slot]*task
	ops    map[uint32]Scope
	opSeq  map[uint32]uint64
	nextOp uint32
	ended  bool // the Machine has asked to disconnect
	qpDead bool // everything flushes
	gone   bool // no completion may come any more
	closed bool

	writing int // ActWrites without ActRespond
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
	cut      bool // an abort means it: it may vanish
	table    resource
	fetched  bool // its data-out is in the buffer
	buffer   bool // leased
	writing  bool // ActWrite without ActRespond
	badTable bool // what was read of its table is wrong
	answered bool
	tm       srp.TskMgmt
}

// resource is where the room for a table is.
type resource struct {
	leasing, held, fetching bool
}

// logged is one step.
type logged struct {
	ev   Event
	acts []Action
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 99)), sent: map[srp.Tag]int{}, vanished: map[srp.Tag]bool{}, twice: map[srp.Tag]bool{},
		posted: map[uint32]bool{}, inUse: map[uint32]bool{}, live: map[Slot]*task{}, ops: map[uint32]Scope{}, opSeq: map[uint32]uint64{},
	}
	cfg := Config{
		Credits: 2 + w.rng.Uint32N(8), Limits: testLimits, MaxTIIU: 512, Held: w.rng.IntN(4) == 0,
		SolNot: true, Notify: srp.LoginFlags(w.rng.IntN(2)) * srp.LoginAerSolNot,
	}
	cfg.Slots = int(cfg.Credits) + w.rng.IntN(3)
	cfg.Recvs = int(cfg.Credits) + 1 + w.rng.IntN(3)
	w.m, w.window, w.login = New(cfg), int(cfg.Credits), int(cfg.Credits)
	for i := range uint32(cfg.Recvs) {
		w.posted[i] = true
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	var last strings.Builder
	for i := max(0, w.steps-len(w.log)); i < w.steps; i++ {
		l := &w.log[i%len(w.log)]
		fmt.Fprintf(&last, "%s %d: %s\n", eventNames[l.ev.Kind], l.ev.Slot.Index(), showAll(l.acts))
	}
	w.t.Fatalf("seed %d, step %d: %s\nlast steps:\n%s", w.seed, w.steps, fmt.Sprintf(format, args...), last.String())
}

func (w *world) step(ev Event) {
	w.t.Helper()
	w.acts = w.m.Step(ev, w.acts[:0])
	l := &w.log[w.steps%len(w.log)]
	l.ev, l.acts = ev, append(l.acts[:0], w.acts...)
	w.steps++
	for _, a := range w.acts {
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
	if w.m.State() == Live {
		w.checkWindow(int(win))
	}
	if w.writing > 0 {
		w.failf("data was written without a response")
	}
}

// checkWindow holds the Machine against the initiator's arithmetic (r16a 5.2.1): what it was granted at login and
// since, without its requests. Whatever it may send finds a receive, and so do its answer and its logout.
func (w *world) checkWindow(win int) {
	if have := w.login + w.deltas - w.requests; have != win || have < 0 || have > w.login {
		w.failf("login %d + deltas %d - requests %d, but the window is %d", w.login, w.deltas, w.requests, win)
	}
	if w.window > win {
		w.failf("the initiator counts %d, the window is %d", w.window, win)
	}
	if len(w.posted) < win {
		w.failf("%d receives for a window of %d", len(w.posted), win)
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
	case ActLeaseTable:
		if k := w.task(a); k.table != (resource{}) || k.buffer || k.leasing {
			w.failf("%s out of turn: %+v", show(a), *k)
		} else {
			k.table.leasing = true
		}
	case ActFetchTable:
		if k := w.task(a); !k.table.held || k.doomed || w.ended {
			w.failf("%s out of turn: %+v", show(a), *k)
		} else {
			k.table.fetching = true
		}
	case ActLease:
		if k := w.task(a); k.buffer || k.leasing || k.table.leasing || k.table.fetching || k.badTable {
			w.failf("%s out of turn: %+v", show(a), *k)
		} else {
			k.leasing = true
		}
	case ActUnlease:
		if k := w.task(a); !k.leasing && !k.table.leasing {
			w.failf("%s without a lease", show(a))
		} else {
			k.leasing, k.table = false, resource{}
		}
	case ActFetch, ActCopy, ActWrite:
		w.rdma(a)
	case ActStopFetch:
		if k := w.task(a); !k.fetching && !w.gone {
			w.failf("%s of no fetch: %+v", show(a), *k)
		}
	case ActReady:
		if k := w.task(a); !k.buffer || w.m.Cmd(a.Slot).DataOut().Len() > 0 && !k.fetched {
			w.failf("%s without its data: %+v", show(a), *k)
		} else {
			k.handler = true
		}
	case ActWatch:
		w.watched = append(w.watched, a.Slot)
		tm := w.m.slots[a.Slot.Index()].tm
		if aborts(tm.Function()) {
			w.mark(scopeOf(tm))
		}
	case ActAbort:
		k := w.task(a)
		if k.doomed {
			w.failf("%s twice", show(a))
		}
		k.doomed, k.handler = true, true
	case ActRespond:
		w.respond(a)
	case ActRepost:
		if w.posted[a.Buf] || !w.inUse[a.Buf] || w.ended {
			w.failf("%s of a buffer that is not free", show(a))
		}
		delete(w.inUse, a.Buf)
		w.posted[a.Buf] = true
	case ActRelease:
		w.release(a)
	case ActCredReq, ActReport:
		if len(w.asked) > 0 || slices.ContainsFunc(w.queue, func(b Action) bool { return b.Kind == ActCredReq || b.Kind == ActReport }) {
			w.failf("%s while another one is not over", show(a))
		}
		w.deltas += int(a.Delta)
		w.queue = append(w.queue, a)
	case ActLogout:
		w.queue = append(w.queue, a)
	case ActAborted:
		w.noVictims(a, w.ops[a.Op], w.opSeq[a.Op]+1, false)
		delete(w.ops, a.Op)
	case ActDisconnect:
		if w.ended {
			w.failf("disconnected twice")
		}
		w.ended, w.qpDead = true, true
	case ActDestroy:
		w.ended = true
		w.lose()
	case ActClosed:
		w.closed = true
	}
}

// slotSeq looks up when a request was given its slot, by the Machine's count.
func (w *world) slotSeq(s Slot) uint64 { return w.m.slots[s.Index()].seq }

// mark notes which commands may vanish.
func (w *world) mark(s Scope) {
	o := op{scope: s, before: ^uint64(0)}
	for _, k := range w.live {
		if k.isCmd && o.means(&slot{state: executing, isCmd: true, seq: k.seq, tag: k.tag, lun: k.lun}) {
			k.cut = true
		}
	}
}

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
	if k.doomed || k.answered || w.ended || !k.buffer {
		w.failf("%s after the end of the command", show(a))
	}
	k.fetching = a.Kind == ActFetch
	k.fetched = a.Kind == ActCopy
	if a.Kind == ActWrite {
		k.writing = true
		w.writing++
	}
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
	if k == nil { // refused, overlapped, or overdue before the handler had it
		k = &task{tag: p.Tag(), isCmd: w.m.slots[a.Slot.Index()].isCmd, seq: w.slotSeq(a.Slot), lun: w.m.slots[a.Slot.Index()].lun}
		w.live[a.Slot] = k
	}
	if !k.isCmd && k.handler { // answered for the handler, who took too long
		k.handler = false
		w.late = append(w.late, a.Slot)
	}
	if k.answered || k.handler || k.fetching || k.leasing || k.table.leasing || k.table.fetching || w.ended || k.tag != p.Tag() {
		w.failf("%s of %+v", show(a), *k)
	}
	w.deltas += int(p.Delta())
	if k.badTable && p.Status() == 0 {
		w.failf("%s: its table is wrong", show(a))
	}
	if k.isCmd && w.m.Cmd(a.Slot).DataIn().Len() > uint32(p.In()) && !k.writing {
		w.failf("%s says that data went to the initiator, but none did", show(a))
	}
	if k.writing {
		w.writing--
	}
	k.answered, k.writing = true, false
	if w.sent[p.Tag()] == 0 {
		w.failf("%s: nobody waits for tag %v", show(a), p.Tag())
	}
	w.queue = append(w.queue, a)
}

func (w *world) release(a Action) {
	w.watched = slices.DeleteFunc(w.watched, func(s Slot) bool { return s == a.Slot })
	k := w.live[a.Slot]
	if k == nil { // an overlapped or managing request that ends without a word
		w.silent++
		return
	}
	if k.handler || k.fetching || k.leasing || k.table.leasing || k.table.fetching {
		w.failf("%s of a slot that is used: %+v", show(a), *k)
	}
	if !k.answered && k.isCmd {
		if w.m.State() == Live && !k.cut && !w.twice[k.tag] {
			w.failf("%s: nobody aborted %+v", show(a), *k)
		}
		w.vanished[k.tag] = true
	}
	delete(w.live, a.Slot)
}
