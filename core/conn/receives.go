package conn

import (
	"errors"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// errTooManyUnits: with receives of its own the initiator would have had to wait.
var errTooManyUnits = errors.New("conn: the initiator sends more units than it was promised receives for")

// receives is where a channel's units come in: a ring of its own, or a share of a pool's.
type receives struct {
	ring *ioctx.Ring
	pool *ReceivePool // nil: ring is the channel's own
	// share is how many buffers the channel may have at one time, left how many more it may get, and held how many of the pool's it has.
	share, left, held int
	repost            recvBatch // of the channel's own
}

func newReceives(cfg *ChannelConfig) (receives, error) {
	if p := cfg.Receives; p != nil {
		return receives{pool: p, ring: p.ring, share: cfg.Share, left: cfg.Share}, nil
	}
	n := cfg.Plan.Receives()
	ring, err := ioctx.NewRing(cfg.Device, n, cfg.Plan.MaxRequestIU)
	return receives{ring: ring, share: n, left: n, repost: newRecvBatch()}, err
}

// queuePair is what the channel's queue pair needs to receive.
func (r *receives) queuePair(cfg rdma.QPConfig) rdma.QPConfig {
	cfg.RecvDepth = r.share
	if r.pool != nil {
		cfg.SRQ = r.pool.srq
	}
	return cfg
}

// refused: there is no queue pair with these receives.
func (r *receives) refused(err error) {
	if r.pool != nil && errors.Is(err, rdma.ErrBroken) {
		r.pool.fault(err)
	}
}

// postAll posts every buffer of the channel's own ring.
func (r *receives) postAll(qp rdma.QP) error {
	if r.pool != nil {
		return nil
	}
	for i := range r.ring.Depth() {
		r.stage(uint32(i))
		if r.full() || i == r.ring.Depth()-1 {
			if err := r.post(qp); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage prepares a buffer to be posted. There must be room.
func (r *receives) stage(buf uint32) {
	if r.pool != nil {
		r.held--
		r.pool.stage(buf)
		return
	}
	r.repost.add(workID(kindRecv, buf), r.ring.Full(int(buf)))
}

func (r *receives) full() bool { return r.repost.full() }

// post posts what is staged.
func (r *receives) post(qp rdma.QP) error {
	if r.pool != nil {
		r.pool.flush()
		return r.pool.err
	}
	return r.repost.post(qp)
}

// drop forgets what is staged. The pool's buffers come back at the end of the channel.
func (r *receives) drop() { r.repost.drop() }

// unregister takes the device's access to the channel's own ring away.
func (r *receives) unregister() error {
	if r.pool != nil {
		return nil
	}
	return r.ring.Unregister()
}

// discard frees what a channel that was never accepted has.
func (r *receives) discard() error {
	if r.pool != nil {
		return nil
	}
	return r.ring.Close()
}

// end frees everything. The queue pair has been closed.
func (r *receives) end(c *Channel) error {
	if r.pool == nil {
		return r.ring.Close()
	}
	if r.held > 0 {
		r.pool.leave(c)
	}
	r.pool.Return(r.share)
	return nil
}

// received takes a receive that has completed.
func (c *Channel) received(buf uint32, w *rdma.Completion) {
	r := &c.recv
	if w.Status != rdma.StatusOK {
		if r.pool != nil {
			r.pool.back(buf)
		}
		if w.Status == rdma.StatusFlushed && (r.pool != nil || !c.established) {
			return // the event that says why follows
		}
		c.feed(&channel.Event{Kind: channel.EvRecvDone, Buf: buf, Outcome: c.outcome(w)})
		return
	}
	if r.pool != nil && !c.mayHave(buf) {
		return
	}
	b := r.ring.Buffer(int(buf))
	n := min(uint64(w.Bytes), uint64(len(b)))
	c.feed(&channel.Event{Kind: channel.EvRecv, Buf: buf, IU: b[:n:n]})
}

// mayHave notes that the channel has a buffer of the pool. If it has its share already, or has ended, the buffer goes back.
func (c *Channel) mayHave(buf uint32) bool {
	r := &c.recv
	if c.m.State() > channel.Live {
		r.pool.back(buf)
		return false
	}
	if r.left == 0 {
		r.pool.back(buf)
		c.broken(errTooManyUnits)
		return false
	}
	r.left--
	r.held++
	r.pool.owner[buf] = c
	return true
}
