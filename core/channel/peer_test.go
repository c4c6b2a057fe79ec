package channel

import "github.com/gosrpt/gosrpt/core/srp"

// What the world around a Machine does: initiator, QP, leases and handler.

// pick returns a random slot for which ok holds.
func (w *world) pick(ok func(*task) bool) (Slot, bool) {
	var found []Slot
	for i := range w.m.slots { // in a fixed order, so that a seed repeats
		h := w.m.slots[i].handle()
		if k := w.live[h]; k != nil && ok(k) {
			found = append(found, h)
		}
	}
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
	w.failf("the initiator met no receive")
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
	n := 512 * (1 + w.rng.Uint32N(8))
	f := srp.CmdFields{Tag: tag, LUN: l, CDB: []byte{0}}
	switch w.rng.IntN(6) {
	case 0:
		f.Attr = 7
	case 1, 2:
		f.In = direct(n)
	case 3:
		f.Out = immediate(int(n))
	case 4:
		f.Out = direct(n)
	}
	w.window--
	w.sent[tag]++
	w.receive(f.Append(nil))
}

func (w *world) sendTM(l srp.LUN) {
	functions := []srp.TaskFunction{1, 1, 1, 2, 4, 8, 0x20, 0x40}
	tag := w.nextTag | 1<<40
	w.nextTag++
	w.window--
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
	case ActCredReq:
		w.window += int(a.Delta)
		w.credReq = append(w.credReq, a.Tag)
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
	case ActCredReq:
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
	h, ok := w.pick(func(k *task) bool { return k.fetching })
	if !ok || w.gone {
		return
	}
	w.live[h].fetching = false
	ev := Event{Kind: EvFetched, Slot: h}
	if w.qpDead {
		ev.Outcome = Flushed
	}
	w.step(ev)
}

func (w *world) lease() {
	h, ok := w.pick(func(k *task) bool { return k.leasing })
	if !ok {
		return
	}
	w.live[h].leasing = false
	kind := EvBuffer
	if w.rng.IntN(10) == 0 {
		kind = EvBufferRefused
	}
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
	w.step(Event{Kind: EvAbort, Op: w.nextOp, Scope: s})
}

func (w *world) answerCredReq() {
	if len(w.credReq) == 0 || w.qpDead {
		return
	}
	iu := srp.AppendCredRsp(nil, w.credReq[0])
	w.credReq = w.credReq[1:]
	w.receive(iu)
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
