package backstorefault

import (
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Fault is what happens to a request.
type Fault struct {
	kind   kind
	code   backstore.Code
	delay  time.Duration
	blocks int
}

type kind uint8

const (
	none kind = iota
	failing
	slow
	torn
	short
	lost
)

// Error fails a request with code, and does nothing of it.
func Error(code backstore.Code) Fault { return Fault{kind: failing, code: code} }

// Delay has a request wait for d before it is done. If its context ends first, it fails with CodeAborted and is not done. A delay goes
// together with one other fault.
func Delay(d time.Duration) Fault { return Fault{kind: slow, delay: d} }

// TornWrite does only the first blocks of a write, a WriteZeroes or a WriteSame, and then fails it with code. It is never done
// whole: of a request of one block nothing is done. With blocks < 0 chance says how many. A CompareAndWrite is not torn: nothing of it is done.
func TornWrite(blocks int, code backstore.Code) Fault {
	return Fault{kind: torn, code: code, blocks: blocks}
}

// ShortRead fills only the first blocks of a read's buffer, leaves the rest as it was, and fails with code. It is never whole.
// With blocks < 0 chance says how many.
func ShortRead(blocks int, code backstore.Code) Fault {
	return Fault{kind: short, code: code, blocks: blocks}
}

// LostFlush has a flush succeed without being done, and a write forget its FUA.
func LostFlush() Fault { return Fault{kind: lost} }

// meets tells whether the fault can happen to a request.
func (f Fault) meets(q *backstore.Request) bool {
	switch f.kind {
	case failing, slow:
		return true
	case torn:
		return Writes(*q)
	case short:
		return q.Op == backstore.OpRead
	case lost:
		return q.Op == backstore.OpFlush || q.Flags&backstore.FUA != 0
	}
	return false
}

// Rule says which requests meet a fault.
type Rule struct {
	// Match chooses requests, nil every one that the fault can happen to. It is called with the wrapper's lock held, and must
	// not keep the request's Data.
	Match func(backstore.Request) bool
	// After is how many of them pass first.
	After int
	// Every takes each n-th of the rest, beginning with the n-th; 0 and 1 take all.
	Every int
	// Chance takes of these each with this probability; 0 takes all.
	Chance float64
	// Times is how often the fault happens at most; 0 means without end.
	Times int
	Fault Fault
}

// Reads matches reads.
func Reads(q backstore.Request) bool { return q.Op == backstore.OpRead }

// Writes matches what changes data, but for Unmap.
func Writes(q backstore.Request) bool {
	switch q.Op {
	case backstore.OpWrite, backstore.OpWriteZeroes, backstore.OpWriteSame, backstore.OpCompareAndWrite:
		return true
	}
	return false
}

// Within makes a Match of requests that touch n bytes from off.
func Within(off, n int64) func(backstore.Request) bool {
	return func(q backstore.Request) bool {
		if q.Op == backstore.OpFlush {
			return false
		}
		return q.Off < off+n && off < q.Off+length(&q)
	}
}

// length is how many bytes of the store a request is about.
func length(q *backstore.Request) int64 {
	switch {
	case q.N != 0:
		return q.N
	case q.Op == backstore.OpCompareAndWrite:
		return int64(len(q.Data)) / 2
	}
	return int64(len(q.Data))
}
