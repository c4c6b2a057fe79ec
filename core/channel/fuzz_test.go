package channel

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// FuzzReceive sends a channel one busy moment and then any unit. Whatever it is,
// the channel answers it, keeps it for later, or says goodbye; and it still drains.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(read(2, 4096))
	f.Add(readTable(2))
	f.Add(writeTable(2))
	f.Add(testReady(1))
	f.Add(writeImmediate(2, 512))
	f.Add(manage(2, srp.FuncAbortTask, lun(3), 1))
	f.Add(srp.AppendILogout(nil, 1))
	f.Add(srp.AppendCredRsp(nil, 1))
	f.Fuzz(func(t *testing.T, iu []byte) {
		r := newRig(t, testConfig())
		r.want(r.recv(testReady(1)), "start 0")
		old := r.slot[1]
		r.step(r.recv(iu))
		if r.m.State() == Live {
			r.credits()
			if !isRequest(iu) {
				t.Fatalf("%x neither took a credit nor ended the channel", iu)
			}
		} else if c := r.m.Cause(); c != CauseProtocol && c != CauseLogout {
			t.Fatalf("%x ended the channel: %v", iu, c)
		}
		r.step(Event{Kind: EvDisconnected})
		r.step(Event{Kind: EvFinished, Slot: old})
		for _, k := range []EventKind{EvFinished, EvManaged} {
			for _, s := range r.slot {
				r.step(Event{Kind: k, Slot: s})
			}
		}
		if n, _ := r.m.Waiting(); r.m.State() != Closed || n != 0 {
			t.Fatalf("%x: %v with %d slots in use", iu, r.m.State(), n)
		}
	})
}
