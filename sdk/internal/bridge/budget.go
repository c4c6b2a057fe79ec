package bridge

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// How much of what a plugin prints and logs goes to the host's log: so many lines a second for ever, and a burst.
const (
	lineRate  = 100
	lineBurst = 1000
	// tellAfter is how long after the first dropped line their number is logged.
	tellAfter = time.Second
)

// budget is how many lines of one process may still be logged.
type budget struct {
	log hclog.Logger

	mu      sync.Mutex
	left    float64
	at      time.Time
	dropped uint64
}

func newBudget(log hclog.Logger) *budget {
	return &budget{log: log, left: lineBurst, at: time.Now()}
}

// take tells whether one line more may be logged. Those that may not are counted, and their number logged once a second.
func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(b.left+now.Sub(b.at).Seconds()*lineRate, lineBurst)
	b.at = now
	if b.left >= 1 {
		b.left--
		return true
	}
	if b.dropped++; b.dropped == 1 {
		time.AfterFunc(tellAfter, b.tell)
	}
	return false
}

func (b *budget) tell() {
	b.mu.Lock()
	n := b.dropped
	b.dropped = 0
	b.mu.Unlock()
	b.log.Warn("the plugin prints too much, lines were dropped", "lines", n)
}
