package bridge

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

const (
	noiseLine    = 512 // bytes of a line that are shown
	noiseRate    = 20  // lines a second that are shown
	noiseLogging = "plugin printed to stdout"
)

// noise logs what a plugin prints, bounded in length and rate. It takes anything and never fails.
type noise struct {
	log hclog.Logger
	now func() time.Time

	mu      sync.Mutex
	line    []byte
	skip    bool // the rest of a line that was too long
	second  int64
	shown   int
	dropped int
}

func newNoise(log hclog.Logger) *noise { return &noise{log: log, now: time.Now} }

// Write takes part of what was printed.
func (n *noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		n.add(line)
		if ended {
			n.end()
		}
		rest = after
	}
	return len(p), nil
}

func (n *noise) add(b []byte) {
	if room := noiseLine - len(n.line); len(b) > room {
		b = b[:room]
		n.skip = true
	}
	n.line = append(n.line, b...)
}

func (n *noise) end() {
	line, cut := n.line, n.skip
	n.line, n.skip = n.line[:0], false
	if s := n.now().Unix(); s != n.second {
		if n.dropped > 0 {
			n.log.Warn("plugin prints too much to stdout, lines were dropped", "lines", n.dropped)
		}
		n.second, n.shown, n.dropped = s, 0, 0
	}
	if n.shown++; n.shown > noiseRate {
		n.dropped++
		return
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("?"))
	}
	n.log.Debug(noiseLogging, "line", string(line), "cut", cut)
}
