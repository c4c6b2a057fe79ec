// Package storetest has a backend that misbehaves on demand, for the tests of what stands behind a store.Guard.
package storetest

import (
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Fault is what is wrong with one request.
type Fault struct {
	// Code replaces the result's code, if it is not CodeOK.
	Code backstore.Code
	// At replaces the result's offset, if Code replaces its code.
	At uint32
	// Skip has the request answered without being done.
	Skip bool
	// Hold keeps the result back until Release.
	Hold bool
	// Late has the request done no earlier than at Release.
	Late bool
	// Lose drops the result.
	Lose bool
	// Twice returns the result two times.
	Twice bool
	// BadTag returns a result for a tag that was never given before the right one.
	BadTag bool
}

// BadTag is the tag of Fault.BadTag's result.
const BadTag = 1<<63 | 0xDEAD

// Faulty is a Backend that breaks the promises of another one as it is told. Without faults it changes nothing.
type Faulty struct {
	store.Backend
	// Plan is asked about each request; nil means no faults.
	Plan func(r *backstore.Request) Fault
	// Passed, if not nil, is told of each request when the store gets it.
	Passed func(r *backstore.Request)
	// Hide are powers of the store that Info keeps quiet about.
	Hide backstore.Powers
	// Room, if not 0, is how many requests the queue holds.
	Room int
	// Count, if not nil, replaces what Submit says.
	Count func(took int) int
	// Closed counts the calls of Close, and Flushes those of Flush.
	Closed, Flushes int

	faults map[uint64]Fault
	ready  []backstore.Result
	held   []backstore.Result
	late   []backstore.Request
	inside int
}

// Wrap returns b with no faults yet.
func Wrap(b store.Backend) *Faulty {
	return &Faulty{Backend: b, faults: map[uint64]Fault{}}
}

// Info describes the store without the hidden powers.
func (f *Faulty) Info() backstore.Info {
	info := f.Backend.Info()
	info.Powers &^= f.Hide
	return info
}

// Submit passes the requests on, but for those that their fault skips.
func (f *Faulty) Submit(reqs []backstore.Request) int {
	took := 0
	for i := range reqs {
		if f.Room > 0 && f.inside == f.Room || !f.submit(&reqs[i]) {
			break
		}
		f.inside++
		took++
	}
	if f.Count != nil {
		return f.Count(took)
	}
	return took
}

func (f *Faulty) submit(r *backstore.Request) bool {
	var fault Fault
	if f.Plan != nil {
		fault = f.Plan(r)
	}
	if fault.Late {
		f.late = append(f.late, *r)
		return true
	}
	if fault.Skip {
		f.file(backstore.Result{Tag: r.Tag}, fault)
		return true
	}
	if !f.pass(r) {
		return false
	}
	f.faults[r.Tag] = fault
	return true
}

// pass gives a request to the store.
func (f *Faulty) pass(r *backstore.Request) bool {
	if f.Passed != nil {
		f.Passed(r)
	}
	return f.Backend.Submit([]backstore.Request{*r}) == 1
}

// file puts a result where its fault wants it.
func (f *Faulty) file(res backstore.Result, fault Fault) {
	if fault.Code != backstore.CodeOK {
		res.Code, res.At = fault.Code, fault.At
	}
	switch {
	case fault.Lose:
		return
	case fault.Hold:
		f.held = append(f.held, res)
		return
	case fault.BadTag:
		f.ready = append(f.ready, backstore.Result{Tag: BadTag})
	case fault.Twice:
		f.ready = append(f.ready, res)
	}
	f.ready = append(f.ready, res)
}

// Poll returns what is ready.
func (f *Faulty) Poll(res []backstore.Result) int {
	var in [16]backstore.Result
	for n := f.Backend.Poll(in[:]); n > 0; n = f.Backend.Poll(in[:]) {
		for _, r := range in[:n] {
			f.file(r, f.faults[r.Tag])
			delete(f.faults, r.Tag)
		}
	}
	n := copy(res, f.ready)
	f.ready = append(f.ready[:0], f.ready[n:]...)
	f.inside = max(0, f.inside-n)
	return n
}

// Release does what is late, makes the results that were held ready, and returns how many those are together.
func (f *Faulty) Release() int {
	n := f.Held()
	for i := range f.late {
		if !f.pass(&f.late[i]) {
			panic("storetest: the backend has no room for what is late")
		}
	}
	f.late = f.late[:0]
	f.ready = append(f.ready, f.held...)
	f.held = f.held[:0]
	return n
}

// Held is how many results are held or late.
func (f *Faulty) Held() int { return len(f.held) + len(f.late) }

// Arm tells whether there is nothing to poll.
func (f *Faulty) Arm() bool { return len(f.ready) == 0 && f.Backend.Arm() }

// Flush counts, and passes on.
func (f *Faulty) Flush() {
	f.Flushes++
	f.Backend.Flush()
}

// Close counts, and passes on.
func (f *Faulty) Close() error {
	f.Closed++
	return f.Backend.Close()
}
