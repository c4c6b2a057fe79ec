package target

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// ghost is the I/O of a dead plugin: a write was answered retryably, and its buffer is touched afterwards. It belongs to
// the reactor.
type ghost struct {
	bufs   [][]byte
	lifted uint64
}

func (g *ghost) Lifted() uint64 { return g.lifted }

func (g *ghost) Tainted(b []byte) bool {
	return slices.ContainsFunc(g.bufs, func(x []byte) bool { return &x[0] == &b[0] })
}

// scribble is what a read that the dead process had begun does.
func (g *ghost) scribble() {
	for _, b := range g.bufs {
		for i := range b {
			b[i] ^= 0xFF
		}
	}
}

func TestLateIOOfADeadPluginReachesNoOtherCommand(t *testing.T) {
	const size = 256 << 10 // a quarter of the arena
	for _, c := range []struct {
		name   string
		fenced bool
	}{{"with a fence", true}, {"without, to see that it matters", false}} {
		t.Run(c.name, func(t *testing.T) {
			leaktest.Check(t)
			dead := &ghost{}
			r := newRig(t, func(r *rig) {
				if c.fenced {
					r.fence = dead
				}
			})
			s := r.ready()
			want := pattern(size, 3)
			if err := s.Write(t.Context(), srp.LUN{}, 0, size/512, want); err != nil {
				t.Fatal(err)
			}
			r.do(func() {
				r.backend.Plan = func(q *backstore.Request) storetest.Fault {
					if q.Op != backstore.OpWrite {
						return storetest.Fault{}
					}
					dead.bufs = append(dead.bufs, q.Data)
					return storetest.Fault{Skip: true, Code: backstore.CodeUnavailable}
				}
				// It strikes when a read has been done, and before its data goes out.
				r.backend.Count = func(took int) int {
					dead.scribble()
					return took
				}
			})
			err := s.Write(t.Context(), srp.LUN{}, 4096, size/512, make([]byte, size))
			var status *initiator.StatusError
			if !errors.As(err, &status) {
				t.Fatalf("the dead plugin's write ended with %v", err)
			}
			// Eight reads at once, for which there are three buffers: they wait for each other.
			var wrong, failed int
			var mu sync.Mutex
			var work sync.WaitGroup
			for range 8 {
				work.Go(func() {
					got := make([]byte, size)
					err := s.Read(t.Context(), srp.LUN{}, 0, size/512, got)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						failed++
						t.Error(err)
					} else if !bytes.Equal(got, want) {
						wrong++
					}
				})
			}
			work.Wait()
			if (wrong == 0) != c.fenced {
				t.Errorf("%d reads of 8 got bytes of the dead plugin", wrong)
			}
			r.do(func() {
				if q := r.arena.Stats().Quarantined; (q == size) != c.fenced {
					t.Errorf("%d bytes in quarantine", q)
				}
				dead.bufs, r.backend.Count = nil, nil
				dead.lifted++
			})
			r.waitFor("every buffer is back", func() bool { s := r.arena.Stats(); return s.Quarantined == 0 && s.Free == s.Size })
			s.Close()
			r.empty()
		})
	}
}
