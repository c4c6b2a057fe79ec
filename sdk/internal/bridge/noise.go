package bridge

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

const (
	noiseLine    = 512     // bytes of a line of stdout that are shown
	stderrLine   = 8 << 10 // and of stderr, where a line is a log entry
	noiseLogging = "plugin printed to stdout"
)

// lines cuts what a plugin prints into lines, bounded in length and, by the budget, in number. It takes anything and never fails.
type lines struct {
	max    int
	budget *budget
	// seen gets every line, keep those that are wanted and within the budget. cut says that the line was longer. None may
	// keep the slice.
	seen   func(line []byte)
	wanted func(line []byte) bool
	keep   func(line []byte, cut bool)

	mu   sync.Mutex
	line []byte
	skip bool // the rest of a line that was too long
}

// Write takes part of what was printed.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		l.add(line)
		if ended {
			l.end()
		}
		rest = after
	}
	return len(p), nil
}

// flush ends a line that has no end.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		l.end()
	}
}

func (l *lines) add(b []byte) {
	if room := l.max - len(l.line); len(b) > room {
		b = b[:room]
		l.skip = true
	}
	l.line = append(l.line, b...)
}

func (l *lines) end() {
	line, cut := l.line, l.skip
	l.line, l.skip = l.line[:0], false
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("?"))
	}
	l.seen(line)
	if l.wanted(line) && l.budget.take() {
		l.keep(line, cut)
	}
}

// newNoise logs what a plugin prints to stdout besides its handshake.
func newNoise(log hclog.Logger, b *budget, e *evidence) *lines {
	wanted := func([]byte) bool { return log.IsDebug() }
	return &lines{max: noiseLine, budget: b, seen: e.printed, wanted: wanted, keep: func(line []byte, cut bool) {
		log.Debug(noiseLogging, "line", string(line), "cut", cut)
	}}
}

// newErrors passes lines of stderr on to w, which reads them as log entries for log.
func newErrors(w io.Writer, log hclog.Logger, b *budget, e *evidence) *lines {
	wanted := func(line []byte) bool { return loggable(log, line) }
	return &lines{max: stderrLine, budget: b, seen: e.complained, wanted: wanted, keep: func(line []byte, cut bool) {
		end := "\n"
		if cut {
			end = "...\n"
		}
		_, _ = w.Write(append(bytes.Clone(line), end...))
	}}
}

// loggable tells whether a line would be logged. Entries below log's level must not use up the budget of those above.
func loggable(log hclog.Logger, line []byte) bool {
	switch {
	case !bytes.HasPrefix(line, []byte("{")):
		return true
	case bytes.Contains(line, []byte(`"@level":"trace"`)):
		return log.IsTrace()
	case bytes.Contains(line, []byte(`"@level":"debug"`)):
		return log.IsDebug()
	}
	return true
}
