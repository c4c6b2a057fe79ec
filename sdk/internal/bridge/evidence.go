package bridge

import (
	"fmt"
	"strings"
	"sync"
)

const (
	shownLines = 3   // of stderr, the last before the handshake
	shownBytes = 200 // of each line
)

// evidence is what a plugin printed before its handshake: it explains one that fails.
type evidence struct {
	mu     sync.Mutex
	closed bool
	first  string   // of stdout
	last   []string // of stderr
}

func shown(line []byte) string {
	if len(line) > shownBytes {
		return string(line[:shownBytes]) + "..."
	}
	return string(line)
}

func (e *evidence) printed(line []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && e.first == "" {
		e.first = shown(line)
	}
}

func (e *evidence) complained(line []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(line) == 0 {
		return
	}
	if e.last = append(e.last, shown(line)); len(e.last) > shownLines {
		e.last = e.last[1:]
	}
}

// close ends the collection.
func (e *evidence) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.first, e.last = true, "", nil
}

// String quotes it, for the end of a sentence.
func (e *evidence) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s []string
	if e.first != "" {
		s = append(s, fmt.Sprintf("before the handshake it printed to stdout: %q", e.first))
	}
	if len(e.last) > 0 {
		s = append(s, fmt.Sprintf("it printed to stderr: %q", strings.Join(e.last, "\n")))
	}
	if s == nil {
		return "it printed nothing"
	}
	return strings.Join(s, "; ")
}
