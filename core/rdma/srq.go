package rdma

import "fmt"

// SRQConfig is the configuration of a shared receive queue.
type SRQConfig struct {
	// Depth is how many receives can be outstanding, those whose completion has not been returned by Poll included. At least 1.
	Depth int
	// MaxSGE is the longest SGL that will be posted; 0 means 1.
	MaxSGE int
}

// SRQ is a shared receive queue (IBTA vol 1, 10.2.9): every queue pair that was made with it takes its receives from it. It is made
// from a CQ, whose owner makes its calls, and serves the queue pairs of that CQ alone.
//
// A receive that a queue pair has taken completes on the CQ exactly once, with the User of that queue pair. If the connection ends before
// the message is whole, or QP.Close comes before Poll has returned the completion, it completes with StatusFlushed, which may be after
// EventDisconnected, and after QP.Close has returned. Receives that nobody has taken stay in the queue, whichever queue pairs come and go.
//
// A device that tells when a queue pair in error has taken its last receive (IBTA vol 1, last WQE reached) is asked to by its
// provider, not by the owner.
//
// A queue that the device gives up ends its queue pairs with EventDisconnected or EventFailed; PostRecv, and NewQP with it, then return an
// error that wraps ErrBroken.
//
// A message that finds no receive waits as one for an empty receive queue does. Who waits is served as receives are posted, nobody for ever
// before another.
type SRQ interface {
	// PostRecv queues receive buffers, as QP.PostRecv.
	PostRecv(work []Work) (n int, err error)
	// Close frees the queue and what is in it; nothing of it completes any more. It returns an error that wraps ErrState while queue
	// pairs that were made with it are not closed.
	Close() error
}

// SharedReceiver is a CQ that has shared receive queues.
type SharedReceiver interface {
	CQ
	// NewSRQ makes a shared receive queue. An error wraps ErrUnsupported if the device has none, and ErrInvalid if it has none of that depth.
	NewSRQ(cfg SRQConfig) (SRQ, error)
}

// NewSRQ makes a shared receive queue for queue pairs of cq. The error wraps ErrUnsupported if cq has none.
func NewSRQ(cq CQ, cfg SRQConfig) (SRQ, error) {
	s, ok := cq.(SharedReceiver)
	if !ok {
		return nil, &Error{Op: "make shared receive queue", Err: fmt.Errorf("the provider has none: %w", ErrUnsupported)}
	}
	return s.NewSRQ(cfg)
}
