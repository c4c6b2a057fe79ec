package host_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestLogLinesKeepTheirLevelBeforeAndAfterTheHandshake(t *testing.T) {
	var log buffer
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Args = []string{"complain"}
		o.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &log})
	})
	open(t, p, map[string]string{"print": "[WARN] later"})
	open(t, p, map[string]string{"print": `{"@level":"error","@message":"last"}`})
	for _, want := range []string{"[WARN]  testplugin: [WARN] at the start", "[WARN]  testplugin: [WARN] later", "[ERROR] testplugin: last"} {
		for end := time.Now().Add(patience); !strings.Contains(log.String(), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q in\n%s", want, log.String())
			}
		}
	}
}

func TestFloodOfLogLinesIsBoundedAndCounted(t *testing.T) {
	var log buffer
	began := time.Now()
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Args = []string{"flood"}
		o.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log})
	})
	for end := time.Now().Add(patience); !strings.Contains(log.String(), "lines were dropped"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was dropped")
		}
	}
	if err := p.Health(soon(t)); err != nil {
		t.Errorf("in the flood: %v", err)
	}
	p.Kill()
	p.Close(soon(t))
	most := 1000 + 100*int(time.Since(began).Seconds()+1) + 200 // and the host's own lines
	if n := strings.Count(log.String(), "\n"); n > most {
		t.Errorf("%d lines were logged, want at most %d", n, most)
	}
	if i := strings.Index(log.String(), strings.Repeat("w", 1000)); i >= 0 {
		t.Error("a line of stdout was not cut")
	}
}
