package target

import (
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// idleHeap is what an idle channel has on the heap at most, in bytes: 2 KiB for each response, with the state of its command, 128 for each
// work request and receive, with the work queues of the provider in memory, 8 KiB, and of each
// shared receive its part of 128.
func idleHeap(p *ioctx.Plan, channels int) int64 {
	heap := int64(2048*p.Responses + 128*(p.SendWork+p.Receives()) + 8192)
	return heap + int64(128*p.SharedReceives/channels)
}

// idle logs many channels in, of as many initiators, and returns what one of them costs: on the heap, in resident memory, and in bytes of
// address space.
func idle(t testing.TB, channels int, plan ioctx.Plan) (heap, resident, mapped int64) {
	t.Helper()
	g := newRig(t, func(g *rig) {
		g.quiet = true
		g.cfg.Plan = plan
		g.cfg.Limits = Limits{Channels: channels}
	})
	k := g.knocker(g.peer)
	ends := make([]*rdmatest.End, channels)
	for i := range ends {
		ends[i] = k.loop.NewEnd(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
	}
	h, r, m := memory(t)
	for i, e := range ends {
		req := request()
		req.Initiator[0], req.Initiator[1], req.MaxITIU = byte(i), byte(i>>8), plan.MaxRequestIU
		e.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: g.remote()}, Private: req.AppendRDMA(nil), Timeout: time.Minute})
		e.Event(rdma.EventEstablished)
	}
	g.waitFor("every channel is there", func() bool { return g.target.links == channels })
	h2, r2, m2 := memory(t)
	k.loop.Close()
	g.empty()
	g.shutdown()
	n := int64(channels)
	return (h2 - h) / n, (r2 - r) / n, (m2 - m) / n
}

// TestIdleChannelsCostWhatThePlanSays has a thousand channels on one target.
func TestIdleChannelsCostWhatThePlanSays(t *testing.T) {
	leaktest.Check(t)
	n := 1000
	if raceDetector {
		n /= 10 // what the detector adds takes its time
	}
	small := ioctx.DefaultPlan()
	small.Credits, small.Responses, small.SendWork, small.MaxRequestIU = 16, 24, 64, 2132
	shared := small
	shared.SharedReceives = 32768
	for name, plan := range map[string]ioctx.Plan{"default": ioctx.DefaultPlan(), "small": small, "shared": shared} {
		heap, resident, mapped := idle(t, n, plan)
		registered, most := int64(plan.ChannelBytes()+plan.SharedBytes()/uint64(n)), idleHeap(&plan, n)
		t.Logf("%s plan: an idle channel has %d bytes of heap, %d resident, %d of address space; the plan registers %d", name, heap, resident, mapped, registered)
		if heap > most {
			t.Errorf("%s plan: an idle channel has %d bytes of heap, more than %d", name, heap, most)
		}
		// The rings are whole pages.
		if bound := instrumented(registered + 2*ioctx.PageSize + most); resident > bound || mapped > bound {
			t.Errorf("%s plan: an idle channel has %d bytes resident and %d mapped, more than %d", name, resident, mapped, bound)
		}
	}
}

// BenchmarkIdleChannel tells what the README says of a channel's memory.
func BenchmarkIdleChannel(b *testing.B) {
	p := ioctx.DefaultPlan()
	for b.Loop() {
		heap, resident, _ := idle(b, 1000, p)
		b.ReportMetric(float64(heap), "heap-B/channel")
		b.ReportMetric(float64(resident), "resident-B/channel")
	}
	b.ReportMetric(float64(p.ChannelBytes()), "registered-B/channel")
}
