package backstorefault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Store is a store with faults.
type Store struct {
	inner  backstore.Store
	powers backstore.Powers
	block  int64

	mu    sync.Mutex
	rnd   *rand.Rand
	rules []Rule
	met   []tally
}

// tally is how often a rule has matched and its fault has happened.
type tally struct{ matched, happened int }

// Wrap puts the faults of rules into s, which the wrapper owns from now on. For each request the first rule that takes it counts; a rule
// with a Delay counts beside another one.
func Wrap(s backstore.Store, seed uint64, rules ...Rule) *Store {
	return &Store{
		inner: s, powers: backstore.PowersOf(s), block: int64(s.Info().BlockSize),
		rnd: rand.New(rand.NewPCG(seed, 0)), rules: rules, met: make([]tally, len(rules)),
	}
}

// Happened is how often the fault of each rule has happened, in their order.
func (s *Store) Happened() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make([]int, len(s.met))
	for i := range s.met {
		n[i] = s.met[i].happened
	}
	return n
}

// Powers are those of the wrapped store.
func (s *Store) Powers() backstore.Powers { return s.powers }

// Info is the wrapped store's.
func (s *Store) Info() backstore.Info { return s.inner.Info() }

// Close closes the wrapped store.
func (s *Store) Close() error { return s.inner.Close() }

// choose finds the fault of a request, and how long it waits. A torn or short one knows how many bytes are done.
func (s *Store) choose(q *backstore.Request) (f Fault, done int64, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rules {
		r := &s.rules[i]
		if (f.kind != none && r.Fault.kind != slow) || !s.takes(r, &s.met[i], q) {
			continue
		}
		if r.Fault.kind == slow {
			wait += r.Fault.delay
			continue
		}
		f = r.Fault
	}
	if f.kind == torn || f.kind == short {
		done = s.part(f.blocks, length(q))
	}
	return f, done, wait
}

func (s *Store) takes(r *Rule, t *tally, q *backstore.Request) bool {
	if !r.Fault.meets(q) || (r.Match != nil && !r.Match(*q)) {
		return false
	}
	t.matched++
	n := t.matched - r.After
	if n <= 0 || (r.Every > 1 && n%r.Every != 0) || (r.Times > 0 && t.happened >= r.Times) {
		return false
	}
	if r.Chance != 0 && s.rnd.Float64() >= r.Chance {
		return false
	}
	t.happened++
	return true
}

// part is how many bytes of n are done: whole blocks, and never all.
func (s *Store) part(blocks int, n int64) int64 {
	all := n / s.block
	switch {
	case all <= 1:
		return 0
	case blocks < 0:
		return s.rnd.Int64N(all) * s.block
	}
	return min(int64(blocks), all-1) * s.block
}

// meet has a request meet its fault. It has no fault left if an error is returned.
func (s *Store) meet(ctx context.Context, q backstore.Request) (f Fault, done int64, err error) {
	f, done, wait := s.choose(&q)
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return f, 0, &backstore.Error{Code: backstore.CodeAborted, Err: ctx.Err()}
		}
	}
	if f.kind == failing {
		err = f.error()
	}
	return f, done, err
}

var errFault = errors.New("a fault that the test put here")

func (f Fault) error() error { return &backstore.Error{Code: f.code, Err: errFault} }

// partly does the first done bytes of a request by do, and fails it.
func (f Fault) partly(done int64, do func(int64) error) error {
	if done > 0 {
		if err := do(done); err != nil {
			return err
		}
	}
	return f.error()
}

func (f Fault) flags(flags backstore.Flags) backstore.Flags {
	if f.kind == lost {
		return flags &^ backstore.FUA
	}
	return flags
}
