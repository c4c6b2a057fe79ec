package initiator

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// FuzzUnit gives a channel two units of a hostile target, with a command and a function
// outstanding. Whatever they say, the channel neither panics nor sends more than its slots hold,
// and it ends a request only for an SRP_RSP.
func FuzzUnit(f *testing.F) {
	rsp := srp.RspFields{Tag: 1 << slotBits, Delta: 1, Status: 2, Sense: []byte{0x70, 0, 6}}
	cred, aer, out := srp.CredReq{Delta: -1 << 31}, srp.AerReq{Sense: []byte{1}}, srp.TLogout{}
	f.Add(srp.AppendRsp(nil, &rsp, targetIU), cred.Append(nil))
	f.Add(aer.Append(nil), out.Append(nil))
	f.Add([]byte{}, []byte{byte(srp.OpRsp)})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		p, a, _ := rdmatest.Pair()
		defer p.Close()
		s := &Session{cfg: Config{Device: a, QueueDepth: 2}.withDefaults(), log: hclog.NewNullLogger()}
		ch := &channel{s: s, maxITIU: srp.MinITIU, maxTIIU: targetIU}
		s.channels = []*channel{ch}
		if err := ch.makeSlots(); err != nil {
			t.Fatal(err)
		}
		ended := 0
		c := &Command{Done: func(*Command) { ended++ }}
		ch.slots[0].newTag()
		ch.slots[0].cmd = c
		fn := &task{function: srp.FuncLUNReset, done: func(srp.RspCode, error) { ended++ }}
		ch.taskSlot.tag = ch.taskSlot.newTag() | tagTask
		ch.taskSlot.task = fn
		responses := 0
		for _, iu := range [][]byte{first, second} {
			if len(iu) > 0 && srp.Opcode(iu[0]) == srp.OpRsp {
				responses++
			}
			// An error is the right answer to most of what comes here.
			_ = ch.unit(iu)
		}
		if len(ch.outbox) > answerSlots {
			t.Errorf("%d units to be sent", len(ch.outbox))
		}
		if ended > 2 || ended > 0 && responses == 0 {
			t.Errorf("%d requests ended by %d responses", ended, responses)
		}
	})
}
