package host

import (
	"context"
	"errors"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// ringLink is a ring in shared memory.
type ringLink struct {
	ring  *ring.Host
	host  *shm.Mem   // written here, read-only for the plugin
	peer  *shm.Mem   // written by the plugin
	bell  *shm.Event // the plugin's doorbell
	rings *counter
	p     *Process
	store *Store
	id    uint64 // the plugin's name for it

	stuck uint64 // of pulse
}

// newRingLink makes the memory of a ring, which one process gets and no other ever.
func newRingLink(entries, generation uint32, rings *counter, s *Store) (*ringLink, error) {
	l := &ringLink{rings: rings, p: s.p, store: s}
	if err := l.create(entries, generation); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l *ringLink) create(entries, generation uint32) error {
	var err error
	if l.host, err = shm.Create("gosrpt-ring", ring.HostSize(entries), shm.Options{PeerReadOnly: true}); err != nil {
		return err
	}
	if l.peer, err = shm.Create("gosrpt-ring", ring.PluginSize(entries), shm.Options{}); err != nil {
		return err
	}
	if l.bell, err = shm.NewEvent(); err != nil {
		return err
	}
	l.ring, err = ring.NewHost(ring.Regions{Host: l.host.Bytes(), Plugin: l.peer.Bytes()}, entries, generation)
	return err
}

func (l *ringLink) push(slot uint32, r *backstore.Request, arena uint64) {
	l.ring.Push(slot, ring.Entry{
		Op: uint8(r.Op), Flags: uint8(r.Flags), Offset: uint64(r.Off), Arena: arena, Length: uint32(len(r.Data)),
		Extent: uint64(r.N),
	})
}

func (l *ringLink) flush() {
	if l.ring.Publish() {
		l.rings.add(1)
		l.bell.Ring()
	}
}

func (l *ringLink) poll(out []ring.Done) (int, error) { return l.ring.Pop(out) }

func (l *ringLink) sleep() bool { return l.ring.Sleep() }

func (l *ringLink) awake() bool { return l.ring.Awake() }

func (l *ringLink) mapped() *Store { return l.store }

func (l *ringLink) broke(err error) { l.p.fault(err) }

func (l *ringLink) detach(ctx context.Context) error {
	r, err := l.p.bridge.RPC().DetachQueue(ctx, &backstorepb.DetachQueueRequest{Queue: l.id})
	return errors.Join(err, failed("let go of a queue", r.GetError()))
}

// quiesce frees the doorbell: a plugin that made it block, and then died, has left nobody who would.
func (l *ringLink) quiesce() { l.bell.Free() }

func (l *ringLink) release() {
	var err error
	if l.host != nil {
		err = errors.Join(err, l.host.Close())
	}
	if l.peer != nil {
		err = errors.Join(err, l.peer.Close())
	}
	if l.bell != nil {
		err = errors.Join(err, l.bell.Close())
	}
	_ = err // there is nothing that a failed close or munmap could be answered with
}

// pulse also frees a doorbell that the plugin made block, by draining it: the plugin is to be killed then.
func (l *ringLink) pulse() pulse {
	var p pulse
	p.waiting, p.beat, p.taken = l.ring.Pulse()
	l.stuck, p.bellStuck = l.bell.Stuck(l.stuck)
	if p.bellStuck {
		l.bell.Drain()
	}
	return p
}
