package ioctx

import (
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Owner is told how the wait of a Lease ended. The calls come from Arena.Poll.
type Owner interface {
	// Granted tells that l is held now.
	Granted(l *Lease)
	// Refused tells that l waited for the arena's MaxWait in vain. l is idle.
	Refused(l *Lease)
}

// Lease is the right to one data buffer. The zero value is idle. It is embedded in its holder and
// used again and again; it must not be copied while it is not idle.
type Lease struct {
	arena *Arena
	owner Owner
	// While it waits: its unit, its neighbours there, and its neighbours by age.
	unit      *group
	links     [places]link
	deadline  time.Time
	off, size uint64
	state     leaseState
}

type leaseState uint8

const (
	idle leaseState = iota
	waiting
	held
)

// Held tells whether l has a buffer.
func (l *Lease) Held() bool { return l.state == held }

// Waiting tells whether l stands in line for a buffer.
func (l *Lease) Waiting() bool { return l.state == waiting }

// Bytes is the buffer, as long as was asked for, or nil if l is not held. It is whoever's I/O it is
// used for until that is done; then the holder's until Release.
func (l *Lease) Bytes() []byte {
	if l.state != held {
		return nil
	}
	return l.arena.mem[l.off : l.off+l.size : l.off+l.size]
}

// SGE names n bytes of the buffer from off on, for work on dev's queue pairs. It returns false if
// the range is not in the buffer, l is not held, or dev has no access to the arena.
func (l *Lease) SGE(dev rdma.Device, off, n uint64) (rdma.SGE, bool) {
	if l.state != held || off > l.size || n > l.size-off {
		return rdma.SGE{}, false
	}
	region := l.arena.region(dev)
	if region == nil {
		return rdma.SGE{}, false
	}
	return rdma.SGE{Region: region, Off: l.off + off, Len: n}, true
}

// Release ends the lease: a held buffer goes back, a wait ends without a call to the Owner. Nothing
// may use the buffer any more. Releasing an idle lease is a fault: it is counted, and panics in a
// strict arena.
func (l *Lease) Release() {
	switch l.state {
	case held:
		l.arena.giveBack(l)
	case waiting:
		l.arena.line.remove(l)
		l.reset()
	default:
		l.fault()
	}
}

func (l *Lease) reset() {
	l.state, l.owner, l.off, l.size = idle, nil, 0, 0
}

func (l *Lease) fault() {
	if l.arena == nil {
		return // never used: there is nobody to count it
	}
	l.arena.stats.Faults++
	if l.arena.strict {
		panic("ioctx: lease released twice")
	}
}
