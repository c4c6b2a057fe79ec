package host_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// BenchmarkDeathIsNoticed measures from the SIGKILL of a plugin to the moment at which the queues of its process know. It should
// be under 10 ms; a plugin with much memory takes the kernel longer to end.
func BenchmarkDeathIsNoticed(b *testing.B) {
	a := newArena(b, 1<<20)
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		p := start(b, a, nil)
		q := queue(b, open(b, p, nil), host.QueueOptions{})
		b.StartTimer()
		began := time.Now()
		p.Kill()
		<-p.Dead()
		took = append(took, time.Since(began))
		b.StopTimer()
		p.Close(b.Context())
		q.Close()
		b.StartTimer()
	}
	slices.Sort(took)
	for name, i := range map[string]int{"ms-p50": len(took) / 2, "ms-p99": len(took) * 99 / 100, "ms-longest": len(took) - 1} {
		b.ReportMetric(float64(took[i].Microseconds())/1000, name)
	}
}
