package channel

import "testing"

// cycle runs one command from receipt to release.
func cycle(m *Machine, iu []byte, need EventKind, acts []Action, rsp []byte) ([]Action, []byte) {
	acts = m.Step(Event{Kind: EvRecv, Buf: 0, IU: iu}, acts[:0])
	s := acts[0].Slot
	acts = m.Step(Event{Kind: need, Slot: s, N: 4096}, acts)
	acts = m.Step(Event{Kind: EvBuffer, Slot: s}, acts)
	if need == EvNeedData {
		acts = m.Step(Event{Kind: EvFetched, Slot: s}, acts)
	}
	acts = m.Step(Event{Kind: EvFinished, Slot: s, Result: Result{InUsed: 4096, OutUsed: 4096}}, acts)
	rsp = m.AppendRsp(s, rsp[:0])
	acts = m.Step(Event{Kind: EvSent, Slot: s}, acts)
	return acts, rsp
}

func TestACommandAllocatesNothing(t *testing.T) {
	m := New(testConfig())
	acts, rsp := make([]Action, 0, 16), make([]byte, 0, 512)
	in, out := read(1, 4096), write(2, 4096)
	n := testing.AllocsPerRun(200, func() {
		acts, rsp = cycle(m, in, EvNeedBuffer, acts, rsp)
		acts, rsp = cycle(m, out, EvNeedData, acts, rsp)
	})
	if n != 0 {
		t.Errorf("%v allocations for two commands", n)
	}
	if s := m.Stats(); s.Commands < 400 || s.Responses != s.Commands || s.Ignored != 0 {
		t.Errorf("stats %+v", s)
	}
}

func BenchmarkRead(b *testing.B) {
	cfg := testConfig()
	cfg.Credits, cfg.Slots, cfg.Recvs = 64, 96, 66
	m := New(cfg)
	acts, rsp := make([]Action, 0, 16), make([]byte, 0, 512)
	iu := read(1, 4096)
	b.ReportAllocs()
	for b.Loop() {
		acts, rsp = cycle(m, iu, EvNeedBuffer, acts, rsp)
	}
}
