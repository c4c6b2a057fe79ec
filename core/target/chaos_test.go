package target

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// host is an initiator that comes and goes, writes in blocks of its own and knows what must be there.
type host struct {
	g     *rig
	index int
	rnd   *rand.Rand
	// blocks holds what each piece of the host's area may hold: one value, or two after a write that
	// was cut short.
	blocks [64][][]byte
}

const pieceBlocks = 8

func newHost(g *rig, index int) *host {
	h := &host{g: g, index: index, rnd: rand.New(rand.NewPCG(uint64(index), 99))}
	for i := range h.blocks {
		h.blocks[i] = [][]byte{make([]byte, pieceBlocks*512)}
	}
	return h
}

func (h *host) lba(piece int) uint64 { return uint64(h.index*len(h.blocks)+piece) * pieceBlocks }

// session logs in, works for a while and ends in one of several ways.
func (h *host) session() {
	s, err := h.g.tryDial(func(c *initiator.Config) {
		c.Initiator[0], c.Channels, c.Immediate = byte(h.index+1), 1+h.rnd.IntN(3), h.rnd.IntN(2) == 0
	})
	if err != nil {
		h.g.t.Errorf("host %d: %v", h.index, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var work sync.WaitGroup
	for range 1 + h.rnd.IntN(20) {
		if h.rnd.IntN(8) == 0 {
			work.Go(func() { _ = s.ResetLUN(ctx, srp.LUN{}) }) // the session may end first
		}
		if !h.piece(ctx, s, h.rnd.IntN(len(h.blocks))) {
			s.Close() // as a host does that gets no answer: another one's reset took the command away
			work.Wait()
			return
		}
	}
	if h.rnd.IntN(2) == 0 {
		s.Close() // with a function under way, perhaps
		work.Wait()
		return
	}
	work.Wait()
	_ = s.Logout(ctx) // how long that takes is the machine's load
	s.Close()
}

// patience is how long a host waits for an answer.
const patience = 300 * time.Millisecond

// piece writes a piece, or reads it and compares. It returns false if there was no answer.
func (h *host) piece(ctx context.Context, s *initiator.Session, i int) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if h.rnd.IntN(2) == 0 {
		data := pattern(pieceBlocks*512, byte(h.rnd.Uint32()))
		err := s.Write(ctx, srp.LUN{}, h.lba(i), pieceBlocks, data)
		if err != nil { // aborted by somebody's reset: it may have been written, or may be not
			h.blocks[i] = append(h.blocks[i], data)
			return h.tolerate(err)
		}
		h.blocks[i] = [][]byte{data}
		return true
	}
	got := make([]byte, pieceBlocks*512)
	if err := s.Read(ctx, srp.LUN{}, h.lba(i), pieceBlocks, got); err != nil {
		return h.tolerate(err)
	}
	for _, want := range h.blocks[i] {
		if bytes.Equal(got, want) {
			h.blocks[i] = [][]byte{want}
			return true
		}
	}
	h.g.t.Errorf("host %d read other data from piece %d", h.index, i)
	return true
}

// tolerate passes the errors that a reset causes, and returns false if there was no answer.
func (h *host) tolerate(err error) bool {
	var status *initiator.StatusError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, initiator.ErrAborted):
		return true
	case errors.As(err, &status):
		if status.Status == 0x40 {
			return true // TASK ABORTED, by another host's function
		}
		if key, _, _ := status.Code(); key == 6 {
			return true // more unit attentions in a row than the initiator gets over
		}
	}
	h.g.t.Errorf("host %d: %v", h.index, err)
	return true
}

func TestHostsThatComeAndGoLoseNothing(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	faults := rand.New(rand.NewPCG(1, 2))
	g.do(func() {
		g.backend.Room = 5
		g.backend.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: faults.IntN(4) == 0} }
	})
	stop, slow := make(chan struct{}), sync.WaitGroup{}
	slow.Go(func() { // the store gives back what it held, in bursts
		for {
			select {
			case <-stop:
				return
			default:
				g.do(func() { g.backend.Release() })
				g.target.Wake()
			}
		}
	})
	var hosts sync.WaitGroup
	for i := range 3 {
		hosts.Go(func() {
			h := newHost(g, i)
			for range 15 {
				h.session()
			}
		})
	}
	hosts.Wait()
	close(stop)
	slow.Wait()
	g.release()
	g.empty()
}
