package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Store is open in one process.
type Store struct {
	p    *Process
	id   uint64
	info backstore.Info
	// lifted is under the arena's taints' lock.
	lifted bool
}

// Open opens the store that config describes. ctx bounds that; it includes the wait until no I/O of an earlier
// process can reach the store.
func (p *Process) Open(ctx context.Context, config map[string]string) (*Store, error) {
	r, err := p.bridge.RPC().Open(ctx, &backstorepb.OpenRequest{Config: config})
	if err == nil {
		err = failed("open the store", r.Error)
	}
	if err != nil {
		return nil, err
	}
	info, err := infoOf(r.Info)
	if err == nil && r.Store == 0 {
		err = errors.New("host: the plugin names a store 0")
	}
	s := &Store{p: p, id: r.Store, info: info}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// infoOf checks what a plugin says of a store.
func infoOf(i *backstorepb.Info) (backstore.Info, error) {
	out := backstore.Info{
		BlockSize: i.GetBlockSize(), PhysicalBlockSize: i.GetPhysicalBlockSize(), Blocks: i.GetBlocks(),
		MaxTransfer: i.GetMaxTransfer(), OptimalTransfer: i.GetOptimalTransfer(),
		ReadOnly: i.GetReadOnly(), WriteCache: i.GetWriteCache(), FUA: i.GetFua(),
		Concurrency: int(i.GetConcurrency()), Serial: i.GetSerial(), Notice: i.GetNotice(),
		UnmapGranularity: i.GetUnmapGranularity(), UnmapZeroes: i.GetUnmapZeroes(), MaxCompareAndWrite: i.GetMaxCompareAndWrite(),
		Powers: backstore.Powers(i.GetPowers()) & allPowers,
	}
	if out.PhysicalBlockSize == 0 {
		out.PhysicalBlockSize = out.BlockSize
	}
	bs, pb := out.BlockSize, out.PhysicalBlockSize
	switch {
	case bs != 512 && bs != 4096:
		return out, fmt.Errorf("host: the plugin says that the block size is %d; 512 or 4096 can be", bs)
	case pb < bs || pb&(pb-1) != 0:
		return out, fmt.Errorf("host: the plugin says that the physical block size is %d, of blocks of %d", pb, bs)
	case out.Blocks == 0 || out.Blocks > (1<<63-1)/uint64(bs):
		return out, fmt.Errorf("host: the plugin says that the store has %d blocks", out.Blocks)
	case out.MaxTransfer%bs != 0:
		return out, fmt.Errorf("host: the plugin says that a transfer has at most %d bytes, not whole blocks", out.MaxTransfer)
	}
	return out, checkPowers(&out)
}

// Info describes the store.
func (s *Store) Info() backstore.Info { return s.info }

// NewQueue makes a queue and attaches it.
func (s *Store) NewQueue(ctx context.Context, o QueueOptions) (*Queue, error) {
	q, err := NewQueue(s.info, s.p.arena, o)
	if err != nil {
		return nil, err
	}
	if err := s.Attach(ctx, q); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// Attach makes q carry its requests to this store. The process that q was attached to before must be dead, or have let go of it: see
// Detach.
func (s *Store) Attach(ctx context.Context, q *Queue) error {
	if q.memory != s.p.arena {
		return errArena
	}
	if lost := q.info.Powers &^ s.info.Powers; lost != 0 {
		return fmt.Errorf("host: attach a queue: %w any more: %v", ErrPower, lost)
	}
	generation, err := q.succeed(s.p)
	if err != nil {
		return err
	}
	l, err := s.connect(ctx, q, generation)
	if err != nil {
		q.forget()
		return fmt.Errorf("host: attach a queue: %w", err)
	}
	return s.p.adopt(l, q)
}

// connect makes a link and has the plugin serve it.
func (s *Store) connect(ctx context.Context, q *Queue, generation uint32) (link, error) {
	if !s.p.ring {
		return newSlowLink(s, q), nil
	}
	l, err := newRingLink(q.opt.Entries, generation, &q.count.rings, s)
	if err != nil {
		return nil, err
	}
	token, err := s.p.send(ctx, l.host.FD(), l.peer.FD(), l.bell.FD(), q.bell.FD())
	if err == nil {
		var r *backstorepb.AttachQueueResponse
		r, err = s.p.bridge.RPC().AttachQueue(ctx, &backstorepb.AttachQueueRequest{
			Store: s.id, Token: token, Entries: q.opt.Entries, Generation: generation,
		})
		l.id = r.GetQueue()
		err = errors.Join(err, failed("serve a queue", r.GetError()))
	}
	if err != nil {
		l.release() // nothing has been sent over it, so the plugin can do no harm with what it has
		return nil, err
	}
	return l, nil
}

// adopt gives a link to its queue, unless the process has died or the queue was closed meanwhile.
func (p *Process) adopt(l link, q *Queue) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errDead
	if !p.gone {
		err = q.post(func(m *mailbox) { m.follow(l) })
	}
	if err != nil {
		l.quiesce()
		l.release() // nothing has been sent over it
		return err
	}
	p.links[l] = q
	return nil
}

// drop takes a link from the process; false if its death has done so.
func (p *Process) drop(l link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.links[l]
	delete(p.links, l)
	return ok
}

var (
	errDead     = errors.New("host: the plugin has died")
	errArena    = errors.New("host: the queue has another arena than the plugin")
	errClosed   = errors.New("host: the queue is closed")
	errAttached = errors.New("host: the queue is attached to a process that is still alive")
)

// Close closes the store. Its queues must have been closed.
func (s *Store) Close(ctx context.Context) error {
	r, err := s.p.bridge.RPC().CloseStore(ctx, &backstorepb.CloseStoreRequest{Store: s.id})
	return errors.Join(err, failed("close the store", r.GetError()))
}
