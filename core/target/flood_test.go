package target

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// times is how often a campaign does what it does: short, or what an environment variable says.
func times(t *testing.T, variable string, short int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return short
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: it must be a number, of at least 1", variable, s)
	}
	return n
}

// memory is what this process has: the heap that is in use after a collection, what is resident, and what is mapped, in bytes.
func memory(t testing.TB) (heap, resident, mapped int64) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	page := int64(os.Getpagesize())
	return int64(m.HeapAlloc), pages * page, size * page
}

// instrumented is a bound of resident memory, of which the race detector takes its own.
func instrumented(bound int64) int64 {
	if raceDetector {
		return 4 * bound
	}
	return bound
}

// flooder logs in under random names, over and over.
type flooder struct {
	k   *knocker
	rnd *rand.Rand
}

// refusedOnce logs in in one of the ways that are refused, with a random initiator port id.
func (f *flooder) refusedOnce() error {
	r := request()
	for i := range r.Initiator {
		r.Initiator[i] = byte(f.rnd.Uint32())
	}
	r.Tag = srp.Tag(f.rnd.Uint64())
	var want srp.RejReason
	switch f.rnd.IntN(5) {
	case 0:
		r.Target[f.rnd.IntN(16)] ^= byte(1 + f.rnd.IntN(255))
		want = srp.RejNexus
	case 1:
		r.MaxITIU = f.rnd.Uint32N(64)
		want = srp.RejITIULength
	case 2:
		r.Initiator[0] = denied
		want = srp.RejNexus
	case 3: // beyond the limit of the target, as its first channel and as a further one
		r.Initiator[0] = 0
		r.Flags |= srp.LoginFlags(f.rnd.IntN(2))
		want = srp.RejResources
	case 4:
		r.Initiator = initiatorID
		r.Flags |= srp.LoginFlags(srp.ActionMulti)
		want = srp.RejChannelLimit
	}
	if r.Initiator[0] == denied {
		want = min(want, srp.RejNexus)
	}
	e, c := f.k.knock(r.AppendRDMA(nil))
	e.Close()
	rej, err := srp.ParseLoginRej(c.Data)
	if err != nil || rej.Reason != want || rej.Tag != r.Tag {
		return fmt.Errorf("%+v: answered with %+v, %v; want %v", r, c, err, want)
	}
	return nil
}

// denied is the first byte of the initiators that the authoriser knows not.
const denied = 0xdd

// TestMemoryDoesNotGrowWithRefusedLogins refuses logins of as many initiators as there are logins. GOSRPT_SOAK_LOGINS says how many.
func TestMemoryDoesNotGrowWithRefusedLogins(t *testing.T) {
	leaktest.Check(t)
	total := times(t, "GOSRPT_SOAK_LOGINS", 50_000)
	g := newRig(t, func(g *rig) {
		g.quiet = true
		g.cfg.Limits = Limits{Channels: 3, ChannelsPerNexus: 2, Reserve: -1}
		g.cfg.Authorizer = judge(func(_ context.Context, l Login) (Grant, error) {
			if l.Initiator[0] == denied {
				return Grant{}, fmt.Errorf("%w: %v", ErrDenied, l.Initiator)
			}
			return Grant{}, nil
		})
	})
	stay := g.knocker(g.peer)
	first := request()
	stay.accepted(first)
	second := first
	second.Flags |= srp.LoginFlags(srp.ActionMulti)
	stay.accepted(second)
	first.Initiator[1]++
	stay.accepted(first)
	var floods []*flooder
	for i := range 4 {
		floods = append(floods, &flooder{g.knocker(g.peer), rand.New(rand.NewPCG(uint64(i), 7))})
	}
	refuse := func(n int) {
		t.Helper()
		errs := make(chan error, len(floods))
		var all sync.WaitGroup
		for _, f := range floods {
			all.Go(func() {
				for range n / len(floods) {
					if err := f.refusedOnce(); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		all.Wait()
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
	}
	const warm = 4000
	refuse(warm)
	heap, resident, _ := memory(t)
	begin := time.Now()
	refuse(total)
	took := time.Since(begin)
	moreHeap, moreResident, _ := memory(t)
	moreHeap, moreResident = moreHeap-heap, moreResident-resident
	t.Logf("%d logins refused in %v (%.0f a second): the heap grew by %d bytes, resident memory by %d, from %d",
		total, took.Round(time.Millisecond), float64(total)/took.Seconds(), moreHeap, moreResident, resident)
	if moreHeap > 1<<20 {
		t.Errorf("the heap grew by %d bytes", moreHeap)
	}
	if bound := instrumented(16 << 20); moreResident > bound {
		t.Errorf("resident memory grew by %d bytes, more than %d", moreResident, bound)
	}
	s := g.stats()
	if n := uint64(warm + total/len(floods)*len(floods)); s.Refused != n || s.Abandoned != 0 {
		t.Errorf("%d logins were refused and %d given up, want %d and none", s.Refused, s.Abandoned, n)
	}
	g.do(func() {
		t := g.target
		if len(t.sessions) != 2 || t.links != 3 || len(t.pending) != 0 || t.used.all != 3 || len(t.used.port) != 1 {
			g.t.Errorf("%d sessions, %d channels, %d pending, %+v", len(t.sessions), t.links, len(t.pending), t.used)
		}
	})
	if n := g.disk.Stats().Nexuses; n != 0 {
		t.Errorf("the disk remembers %d nexuses", n)
	}
	for _, k := range append([]*flooder{{k: stay}}, floods...) {
		k.k.loop.Close()
	}
	g.empty()
}
