package conn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// ReceivePool is receive buffers that channels of one device share. Each channel has a share promised, as many as its initiator may use
// at one time, and the shares together are never more than the buffers: so a unit always finds one. A channel whose initiator uses more
// ends. Its methods are called in the reactor's goroutine.
type ReceivePool struct {
	reactor *Reactor
	dev     rdma.Device
	num     uint32 // in the IDs of its work
	ring    *ioctx.Ring
	srq     rdma.SRQ
	// owner is the channel that has a buffer; nil for those that are posted.
	owner    []*Channel
	promised int
	retired  bool // no promise follows
	dead     bool // the queue is closed
	err      error
	broken   atomic.Bool // err is not nil

	batch recvBatch
}

// PoolStats is a snapshot of a ReceivePool.
type PoolStats struct {
	// Depth is how many buffers there are, Promised how many of them channels may use, Held how many they have now.
	Depth, Promised, Held int
	// Err is why buffers could not be posted again.
	Err error
}

// OpenReceivePool makes depth shared receive buffers of size bytes for channels of a device that the reactor serves. It may be called from
// any goroutine but the reactor's, as it may take long. An error wraps rdma.ErrUnsupported if the device has no shared receive queues. The
// pool ends with the device, with the reactor, or by Retire.
func OpenReceivePool(ctx context.Context, r *Reactor, dev rdma.Device, depth int, size uint32) (*ReceivePool, error) {
	ring, err := ioctx.NewRing(dev, depth, size)
	if err != nil {
		return nil, err
	}
	p := &ReceivePool{reactor: r, dev: dev, ring: ring, owner: make([]*Channel, depth), batch: newRecvBatch()}
	var failed error
	if err = r.Call(ctx, func() { failed = p.open() }); err == nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("conn: %d shared receives on %s: %w", depth, dev.Name(), errors.Join(err, ring.Close()))
	}
	return p, nil
}

func (p *ReceivePool) open() error {
	q := p.reactor.queueOf(p.dev)
	if q == nil {
		return ErrDevice
	}
	srq, err := rdma.NewSRQ(q.cq, rdma.SRQConfig{Depth: p.ring.Depth(), MaxSGE: 1})
	if err != nil {
		return err
	}
	q.lastPool = (q.lastPool + 1) & maxPool
	p.srq, p.num = srq, q.lastPool
	for i := range p.ring.Depth() {
		p.stage(uint32(i))
	}
	if p.flush(); p.err != nil {
		return errors.Join(p.err, srq.Close())
	}
	q.pools = append(q.pools, p)
	return nil
}

// maxPool bounds the number of a pool in the ID of its work.
const maxPool = 1<<24 - 1

func poolWorkID(pool, buf uint32) uint64 { return workID(kindRecv, buf) | uint64(pool)<<32 }

func poolOf(id uint64) uint32 { return uint32(id>>32) & maxPool }

// stage prepares a buffer to be posted.
func (p *ReceivePool) stage(buf uint32) {
	p.owner[buf] = nil
	p.batch.add(poolWorkID(p.num, buf), p.ring.Full(int(buf)))
	if p.batch.full() {
		p.flush()
	}
}

// flush posts what is staged.
func (p *ReceivePool) flush() {
	if p.dead {
		p.batch.drop()
		return
	}
	p.fault(p.batch.post(p.srq))
}

// back posts a buffer that nobody looks at any more.
func (p *ReceivePool) back(buf uint32) {
	if int(buf) < len(p.owner) {
		p.stage(buf)
		p.flush()
	}
}

// leave takes the buffers of a channel back. Its queue pair has been closed.
func (p *ReceivePool) leave(c *Channel) {
	for i, o := range p.owner {
		if o == c {
			p.stage(uint32(i))
		}
	}
	p.flush()
}

// Free is how many receives are promised to nobody; 0 if the pool serves no more channels.
func (p *ReceivePool) Free() int {
	if p.retired || p.dead || p.err != nil {
		return 0
	}
	return p.ring.Depth() - p.promised
}

// Device is the device.
func (p *ReceivePool) Device() rdma.Device { return p.dev }

// Depth is how many buffers there are.
func (p *ReceivePool) Depth() int { return p.ring.Depth() }

// Promise sets n receives, at most Free, aside for a channel; its end, or Return, gives them back.
func (p *ReceivePool) Promise(n int) { p.promised += n }

// Return gives back what was promised to a channel that did not come about.
func (p *ReceivePool) Return(n int) {
	p.promised -= n
	p.fault(p.settle())
}

// Retire ends the pool when the last channel that uses it has ended.
func (p *ReceivePool) Retire() {
	p.retired = true
	p.fault(p.settle())
}

func (p *ReceivePool) fault(err error) {
	if err != nil && p.err == nil {
		p.err = err
		p.broken.Store(true)
	}
}

// Broken tells that the pool serves no more channels, as its device does not take the buffers again: retire it, and open another one. It may
// be called from any goroutine.
func (p *ReceivePool) Broken() bool { return p.broken.Load() }

// settle frees what nobody uses any more.
func (p *ReceivePool) settle() error {
	if p.promised > 0 || !p.retired && !p.dead {
		return nil
	}
	err := p.kill()
	p.reactor.dropPool(p)
	return errors.Join(err, p.ring.Close())
}

// kill ends the queue; every queue pair that uses it has been closed. Buffers that a handler still looks at stay mapped until it
// gives them back.
func (p *ReceivePool) kill() error {
	if p.dead {
		return nil
	}
	p.dead = true
	return errors.Join(p.srq.Close(), p.ring.Unregister())
}

// Stats returns a snapshot.
func (p *ReceivePool) Stats() PoolStats {
	s := PoolStats{Depth: p.ring.Depth(), Promised: p.promised, Err: p.err}
	for _, o := range p.owner {
		if o != nil {
			s.Held++
		}
	}
	return s
}
