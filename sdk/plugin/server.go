package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/schemawire"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// server is the control plane: it opens stores, attaches rings to them and ends both.
type server struct {
	backstorepb.UnimplementedBackstoreServer
	backstore backstore.Backstore
	inbox     *inbox // nil without a descriptor channel

	mu     sync.Mutex
	arena  *shm.Mem
	stores map[uint64]*store
	queues map[uint64]*queue
	last   uint64
	ended  bool
}

func newServer(b backstore.Backstore) *server {
	return &server{backstore: b, stores: map[uint64]*store{}, queues: map[uint64]*queue{}}
}

var errEnded = errors.New("the plugin is shutting down")

func failure(err error) *backstorepb.Error {
	if err == nil {
		return nil
	}
	e := &backstorepb.Error{Code: uint32(backstore.CodeOf(err)), Text: strings.ToValidUTF8(err.Error(), "?")}
	if backstore.Code(e.Code) == backstore.CodeMiscompare {
		e.At = differsAt(err)
	}
	return e
}

func invalid(format string, args ...any) error {
	return &backstore.Error{Code: backstore.CodeInvalid, Err: fmt.Errorf(format, args...)}
}

// Describe tells what this plugin can do and what it is.
func (s *server) Describe(context.Context, *backstorepb.DescribeRequest) (*backstorepb.DescribeResponse, error) {
	d, err := schemawire.Describe(s.backstore)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &backstorepb.DescribeResponse{Ring: s.inbox != nil, Transfer: true, Runtime: about(), Description: d}, nil
}

// AttachArena maps the memory that the host sent.
func (s *server) AttachArena(ctx context.Context, r *backstorepb.AttachArenaRequest) (*backstorepb.AttachArenaResponse, error) {
	return &backstorepb.AttachArenaResponse{Error: failure(s.attachArena(ctx, r))}, nil
}

func (s *server) attachArena(ctx context.Context, r *backstorepb.AttachArenaRequest) error {
	fds, err := s.receive(ctx, r.Token, 1)
	if err != nil {
		return err
	}
	if r.Size > 1<<46 {
		shm.CloseAll(fds)
		return invalid("an arena of %d bytes cannot be mapped", r.Size)
	}
	m, err := shm.Map(fds[0], int(r.Size), true)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arena != nil || s.ended {
		m.Close()
		return invalid("the process has an arena, or is shutting down")
	}
	s.arena = m
	return nil
}

// receive waits for the message on the descriptor channel that carries the token, with n descriptors.
func (s *server) receive(ctx context.Context, token uint64, n int) ([]int, error) {
	if s.inbox == nil {
		return nil, &backstore.Error{Code: backstore.CodeNotSupported, Err: errors.New("no descriptor channel was inherited")}
	}
	fds, err := s.inbox.take(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("waiting for message %d on the descriptor channel: %w", token, err)
	}
	if len(fds) != n {
		shm.CloseAll(fds)
		return nil, invalid("message %d carries %d descriptors, not %d", token, len(fds), n)
	}
	return fds, nil
}

// Open opens a store.
func (s *server) Open(ctx context.Context, r *backstorepb.OpenRequest) (*backstorepb.OpenResponse, error) {
	inner, err := s.backstore.Open(ctx, r.Config)
	if err != nil {
		return &backstorepb.OpenResponse{Error: failure(err)}, nil
	}
	st, err := newStore(inner)
	if err == nil {
		err = ctx.Err() // the host has given up: it would not know of the store, whose lock keeps the next one out
	}
	if err == nil {
		err = s.add(st)
	}
	if err != nil {
		return &backstorepb.OpenResponse{Error: failure(errors.Join(err, inner.Close()))}, nil
	}
	return &backstorepb.OpenResponse{Store: st.id, Info: infoMessage(st.info)}, nil
}

func (s *server) add(st *store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errEnded
	}
	s.last++
	st.id = s.last
	s.stores[st.id] = st
	return nil
}

func (s *server) find(id uint64) (*store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.stores[id]; st != nil {
		return st, nil
	}
	return nil, invalid("no store %d is open", id)
}

// AttachQueue maps a ring and serves it.
func (s *server) AttachQueue(ctx context.Context, r *backstorepb.AttachQueueRequest) (*backstorepb.AttachQueueResponse, error) {
	q, err := s.attachQueue(ctx, r)
	if err != nil {
		return &backstorepb.AttachQueueResponse{Error: failure(err)}, nil
	}
	return &backstorepb.AttachQueueResponse{Queue: q.id}, nil
}

func (s *server) attachQueue(ctx context.Context, r *backstorepb.AttachQueueRequest) (*queue, error) {
	fds, err := s.receive(ctx, r.Token, 4)
	if err != nil {
		return nil, err
	}
	st, err := s.find(r.Store)
	if err == nil {
		err = ring.CheckEntries(r.Entries)
	}
	if err != nil {
		shm.CloseAll(fds)
		return nil, err
	}
	s.mu.Lock()
	arena := s.arena
	s.mu.Unlock()
	if arena == nil {
		shm.CloseAll(fds)
		return nil, invalid("a queue before an arena")
	}
	memory, err := mapQueue(fds, r.Entries)
	if err != nil {
		return nil, err
	}
	q, err := newQueue(ctx, st, memory, arena.Bytes(), r.Entries, r.Generation)
	if err != nil {
		memory.close()
		return nil, err
	}
	return q, s.startQueue(q)
}

func (s *server) startQueue(q *queue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.stores[q.store.id] != q.store {
		err := errors.Join(errEnded, q.close())
		q.memory.close()
		return err
	}
	if !q.store.use.TryRLock() {
		err := errors.Join(errSanitizing, q.close())
		q.memory.close()
		return err
	}
	s.last++
	q.id = s.last
	s.queues[q.id] = q
	go q.run()
	return nil
}

// DetachQueue ends a ring.
func (s *server) DetachQueue(ctx context.Context, r *backstorepb.DetachQueueRequest) (*backstorepb.DetachQueueResponse, error) {
	s.mu.Lock()
	q := s.queues[r.Queue]
	s.mu.Unlock()
	if q == nil {
		return &backstorepb.DetachQueueResponse{Error: failure(invalid("no queue %d is attached", r.Queue))}, nil
	}
	return &backstorepb.DetachQueueResponse{Error: failure(s.detach(ctx, q))}, nil
}

func (s *server) detach(ctx context.Context, q *queue) error {
	if err := q.stop(ctx); err != nil {
		return &backstore.Error{Code: backstore.CodeBusy,
			Err: fmt.Errorf("%d requests are still under way: %w", q.ring.Outstanding(), err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[q.id] == q {
		delete(s.queues, q.id)
		q.memory.close()
		q.store.use.RUnlock()
	}
	return nil
}

// CloseStore ends a store's rings and the store.
func (s *server) CloseStore(ctx context.Context, r *backstorepb.CloseStoreRequest) (*backstorepb.CloseStoreResponse, error) {
	st, err := s.find(r.Store)
	if err == nil {
		err = s.closeStore(ctx, st)
	}
	return &backstorepb.CloseStoreResponse{Error: failure(err)}, nil
}

func (s *server) closeStore(ctx context.Context, st *store) error {
	for _, q := range s.queuesOf(st) {
		if err := s.detach(ctx, q); err != nil {
			return err
		}
	}
	s.mu.Lock()
	mine := s.stores[st.id] == st
	delete(s.stores, st.id)
	s.mu.Unlock()
	if !mine {
		return invalid("store %d was closed meanwhile", st.id)
	}
	return st.close(ctx)
}

func (s *server) queuesOf(st *store) []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var qs []*queue
	for _, q := range s.queues {
		if q.store == st {
			qs = append(qs, q)
		}
	}
	return qs
}

// Health tells about every ring.
func (s *server) Health(context.Context, *backstorepb.HealthRequest) (*backstorepb.HealthResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &backstorepb.HealthResponse{}
	for _, q := range s.queues {
		r.Queues = append(r.Queues, &backstorepb.QueueHealth{
			Queue: q.id, Outstanding: q.ring.Outstanding(), Broken: q.broken(),
		})
	}
	return r, nil
}

func infoMessage(i backstore.Info) *backstorepb.Info {
	return &backstorepb.Info{
		BlockSize: i.BlockSize, PhysicalBlockSize: i.PhysicalBlockSize, Blocks: i.Blocks,
		MaxTransfer: i.MaxTransfer, OptimalTransfer: i.OptimalTransfer,
		ReadOnly: i.ReadOnly, WriteCache: i.WriteCache, Fua: i.FUA,
		Concurrency: int32(min(max(i.Concurrency, 0), maxConcurrency)), Serial: i.Serial, Notice: i.Notice,
		UnmapGranularity: i.UnmapGranularity, UnmapZeroes: i.UnmapZeroes, MaxCompareAndWrite: i.MaxCompareAndWrite,
		Powers: uint32(i.Powers),
	}
}
