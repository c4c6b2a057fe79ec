package pluginhost_test

import (
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// BenchmarkRestart measures from the SIGKILL of the plugin to the first answer of the next process, and, for comparison,
// a cold start up to the first answer.
func BenchmarkRestart(b *testing.B) {
	flush := backstore.Request{Op: backstore.OpFlush}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			f := start(b, nil)
			one(b, open(b, f, host.QueueOptions{Hold: patience}, map[string]string{}), flush)
			b.StopTimer()
			f.Close()
			b.StartTimer()
		}
	})
	b.Run("kill", func(b *testing.B) {
		f := start(b, func(c *pluginhost.Config) { c.BackoffMin = time.Microsecond; c.BackoffMax = time.Microsecond })
		q := open(b, f, host.QueueOptions{Hold: patience}, map[string]string{})
		for b.Loop() {
			b.StopTimer()
			for f.Status().PID == 0 {
				time.Sleep(time.Millisecond)
			}
			one(b, q, flush)
			pid := f.Status().PID
			b.StartTimer()
			kill(b, pid)
			for f.Status().PID == pid {
				one(b, q, flush)
			}
			one(b, q, flush)
		}
	})
}
