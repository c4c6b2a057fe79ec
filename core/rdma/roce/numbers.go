package roce

import (
	"sync"

	"github.com/gosrpt/gosrpt/core/ib"
)

// recentNumbers is how many freed numbers are kept out of use.
const recentNumbers = 4096

// numbers gives out queue pair numbers: the low byte is the CQ's member number, which steers
// datagrams; the rest is random, and not used again soon, so that what is meant for an old queue
// pair does not reach a new one.
type numbers struct {
	mu     sync.Mutex
	taken  map[ib.QPN]bool // true: in use, false: resting
	recent []ib.QPN
	next   int
}

func newNumbers() numbers { return numbers{taken: make(map[ib.QPN]bool)} }

func (n *numbers) take(member int) ib.QPN {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		q := ib.QPN(random64())<<8&ib.QPNMask | ib.QPN(member)
		if _, ok := n.taken[q]; !ok && q>>8 != 0 {
			n.taken[q] = true
			return q
		}
	}
}

// give puts a number back; a second time does nothing. It can be taken again after recentNumbers others have been given.
func (n *numbers) give(q ib.QPN) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.taken[q] {
		return
	}
	n.taken[q] = false
	if len(n.recent) < recentNumbers {
		n.recent = append(n.recent, q)
		return
	}
	delete(n.taken, n.recent[n.next])
	n.recent[n.next] = q
	n.next = (n.next + 1) % recentNumbers
}
