package channel

import "github.com/gosrpt/gosrpt/core/srp"

// What the world around a Machine does: initiator, QP, leases and handler.

// pick returns a random slot for which ok holds.
func (w *world) pick(ok func(*task) bool) (Slot, bool) {
	found := w.found[:0]
	for i := range w.m.slots { // in a fixed order, so that a seed repeats
		h := w.m.slots[i].handle()
		if k := w.live[h]; k != nil && ok(k) {
			found = append(found, h)
		}
	}
	w.found = found
	if len(found) == 0 {
		return 0, false
	}
	return found[w.rng.IntN(len(found))], true
}

// receive lets a unit arrive in some posted receive.
func (w *world) receive(iu []byte) {
	for i := range uint32(w.m.cfg.Recvs) {
		if w.posted[i] {
			delete(w.posted, i)
			w.inUse[i] = true
			w.step(Event{Kind: EvRecv, Buf: i, IU: iu})
			return
		}
	}
	if w.m.State() <= Live {
		w.failf("the initiator met no receive")
	}
}

func (w *world) send() {
	if w.qpDead || w.window == 0 {
		return
	}
	l := lun(w.rng.Uint32N(3))
	if w.rng.IntN(8) == 0 || w.window == 1 {
		w.sendTM(l)
		return
	}
	tag := w.nextTag
	w.nextTag++
	if w.rng.IntN(20) == 0 && tag > 0 {
		tag -= srp.Tag(w.rng.Uint64N(min(uint64(tag), 4))) + 1 // perhaps in use
	}
	if w.sent[tag] > 1 {
		return
	}
	w.twice[tag] = w.sent[tag] > 0
	n := 512 * (1 + w.rng.Uint32N(8))
	f := srp.CmdFields{Tag: tag, LUN: l, CDB: []byte{0}}
	switch w.rng.IntN(8) {
	case 0:
		f.Attr = 7
	case 5:
		f.In = partial(8, w.rng.IntN(8))
	case 6:
		f.Out = partial(8, w.rng.IntN(8))
	case 1, 2:
		f.In = direct(n)
	case 3:
		f.Out = immediate(int(n))
	case 4:
		f.Out = direct(n)
	}
	w.window--
	w.requests++
	w.sent[tag]++
	w.receive(f.Append(nil))
}

func (w *world) sendTM(l srp.LUN) {
	functions := []srp.TaskFunction{1, 1, 1, 2, 4, 8, 0x20, 0x40}
	tag := w.nextTag | 1<<40
	w.nextTag++
	w.window--
	w.requests++
	w.sent[tag]++
	victim := w.nextTag - srp.Tag(w.rng.Uint64N(6))
	w.receive(manage(tag, functions[w.rng.IntN(len(functions))], l, victim))
}

// deliver lets the initiator receive the oldest unit it has not seen.
func (w *world) deliver() {
	if w.qpDead || w.seen == len(w.queue) {
		return
	}
	a := w.queue[w.seen]
	w.seen++
	switch a.Kind {
	case ActRespond:
		p := srp.Rsp(w.m.AppendRsp(a.Slot, nil))
		w.sent[p.Tag()]--
		w.window += int(p.Delta())
	case ActCredReq, ActReport:
		w.window += int(a.Delta)
		w.asked = append(w.asked, a)
	}
}

// complete reports the oldest send; on a dead QP as flushed.
func (w *world) complete() {
	if len(w.queue) == 0 || w.gone || !w.qpDead && w.seen == 0 {
		return
	}
	a := w.queue[0]
	w.queue = w.queue[1:]
	w.seen = max(0, w.seen-1)
	ev := Event{Kind: EvSent, Slot: a.Slot}
	switch a.Kind {
	case ActCredReq, ActReport:
		ev.Kind = EvAskSent
	case ActLogout:
		ev.Kind = EvLogoutSent
	}
	if w.qpDead {
		ev.Outcome = Flushed
	}
	w.step(ev)
}

func (w *world) fetched() {
	h, ok := w.pick(func(k *task) bool { return k.fetching || k.table.fetching })
	if !ok || w.gone {
		return
	}
	k := w.live[h]
	ev := Event{Kind: EvFetched, Slot: h}
	if k.table.fetching {
		ev.Kind, ev.IU = EvTableFetched, w.tableBytes(int(w.m.Data(h).Remote().Length))
		k.badTable = ev.IU[15] == 0 && ev.IU[14] == 0 // no length
	}
	k.fetched = k.fetching && !w.qpDead
	k.fetching, k.table.fetching = false, false
	if w.qpDead {
		ev.Outcome = Flushed
	}
	w.step(ev)
}

// tableBytes is what the initiator has in its memory: mostly a table.
func (w *world) tableBytes(n int) []byte {
	b := rest(partial(n/srp.DescLen, 0))
	if w.rng.IntN(8) == 0 {
		clear(b)
	}
	return b
}

func (w *world) lease() {
	h, ok := w.pick(func(k *task) bool { return k.leasing || k.table.leasing })
	if !ok {
		return
	}
	k := w.live[h]
	refused := w.rng.IntN(10) == 0
	kind := EvBuffer
	switch {
	case refused:
		kind = EvBufferRefused
	case k.leasing:
		k.buffer = true
	default:
		kind = EvTable
		k.table.held = true
	}
	k.leasing, k.table.leasing = false, false
	w.step(Event{Kind: kind, Slot: h})
}

// handle lets the handler do something about a request it has.
func (w *world) handle() {
	h, ok := w.pick(func(k *task) bool { return k.handler })
	if !ok {
		return
	}
	k := w.live[h]
	k.handler = false
	switch {
	case !k.isCmd:
		w.step(Event{Kind: EvManaged, Slot: h})
	case !k.wanted && !k.doomed && w.rng.IntN(4) > 0:
		k.wanted = true
		kind := EvNeedBuffer
		if w.m.Cmd(h).DataOut().Len() > 0 {
			kind = EvNeedData
		}
		w.step(Event{Kind: kind, Slot: h, N: 512})
	default:
		w.step(Event{Kind: EvFinished, Slot: h, Result: Result{
			Status: byte(w.rng.IntN(2) * 2), InUsed: 512, OutUsed: 512, Sense: make([]byte, w.rng.IntN(20)),
		}})
	}
}

func (w *world) abort() {
	s := Scope{LUN: lun(w.rng.Uint32N(3)), AllLUNs: w.rng.IntN(4) == 0, TaskAborted: w.rng.IntN(3) == 0}
	w.nextOp++
	w.ops[w.nextOp], w.opSeq[w.nextOp] = s, w.m.seq
	if !s.TaskAborted {
		w.mark(s)
	}
	w.step(Event{Kind: EvAbort, Op: w.nextOp, Scope: s})
}

// answerAsk answers what the target has asked.
func (w *world) answerAsk() {
	if len(w.asked) == 0 || w.qpDead {
		return
	}
	a := w.asked[0]
	w.asked = w.asked[1:]
	if a.Kind == ActReport {
		w.receive(srp.AppendAerRsp(nil, a.Tag))
		return
	}
	w.receive(srp.AppendCredRsp(nil, a.Tag))
}

// report tells of an event of a logical unit.
func (w *world) report() {
	w.step(Event{Kind: EvReport, Scope: Scope{LUN: lun(w.rng.Uint32N(3))}, Result: Result{Sense: []byte{0x70, 0, 6}}})
}

// tooLate lets the time of task management run out.
func (w *world) tooLate() {
	if len(w.watched) == 0 {
		return
	}
	w.step(Event{Kind: EvTaskTimeout, Slot: w.watched[w.rng.IntN(len(w.watched))]})
}

// managed lets the handler end task management that was answered for it.
func (w *world) managed() {
	if len(w.late) == 0 {
		return
	}
	h := w.late[0]
	w.late = w.late[1:]
	w.step(Event{Kind: EvManaged, Slot: h})
}

// flush completes one receive of a dead QP.
func (w *world) flush() {
	for i := range uint32(w.m.cfg.Recvs) {
		if w.posted[i] && w.qpDead && !w.gone {
			delete(w.posted, i)
			w.step(Event{Kind: EvRecvDone, Buf: i, Outcome: Flushed})
			return
		}
	}
}
