// Command testbare is a backstore plugin that is written to sdk/PROTOCOL.md, without the SDK's half, for the tests of the kit that
// checks executables. Its arguments are faults, each of which one check must find; without any it passes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
)

// fault tells whether a fault is wanted.
func fault(name string) bool { return slices.Contains(os.Args[1:], name) }

func main() {
	if os.Getenv("GOSRPT_PLUGIN") == "" {
		if fault("waits") {
			select {}
		}
		fmt.Fprintln(os.Stderr, "testbare: no host has started this")
		os.Exit(1)
	}
	if !fault("mortal") {
		signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
	}
	if fault("noisy") {
		fmt.Println("hello")
	}
	s := &server{sets: map[uint64][]int{}, stores: map[uint64]*store{}, queues: map[uint64]*queue{}}
	s.more = sync.NewCond(&s.mu)
	c, err := bridge.Channel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go s.receive(c)
	if fault("unhealthy") {
		serveAlone(s)
	}
	bridge.Serve(s)
	if fault("stubborn") {
		select {}
	}
	if fault("failing") {
		os.Exit(4)
	}
	s.end()
}

// serveAlone serves the contract and nothing beside it.
func serveAlone(s *server) {
	l, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s"))
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer()
	backstorepb.RegisterBackstoreServer(g, s)
	fmt.Printf("1|1|unix|%s|grpc|\n", l.Addr())
	_ = g.Serve(l)
}

// server is the control plane.
type server struct {
	backstorepb.UnimplementedBackstoreServer

	mu     sync.Mutex
	more   *sync.Cond
	sets   map[uint64][]int
	arena  *shm.Mem
	stores map[uint64]*store
	queues map[uint64]*queue
	last   uint64
	asked  int
}

// receive keeps what comes over the descriptor channel. Its end is the host's.
func (s *server) receive(c *shm.Channel) {
	for {
		token, fds, err := c.Receive()
		if err != nil {
			break
		}
		s.mu.Lock()
		s.sets[token] = fds
		s.more.Broadcast()
		s.mu.Unlock()
	}
	if !fault("deaf") {
		s.end()
		os.Exit(0)
	}
}

func (s *server) take(token uint64) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.sets[token] == nil {
		s.more.Wait()
	}
	fds := s.sets[token]
	delete(s.sets, token)
	return fds
}

// end stops the queues and closes the stores.
func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		q.stop()
	}
	for _, st := range s.stores {
		st.close()
	}
}

func failure(code uint32, err error) *backstorepb.Error {
	if err == nil {
		return nil
	}
	return &backstorepb.Error{Code: code, Text: err.Error()}
}

// Describe declares the setting path.
func (s *server) Describe(context.Context, *backstorepb.DescribeRequest) (*backstorepb.DescribeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	runtime := "bare"
	if fault("fickle") {
		runtime = fmt.Sprint("bare ", s.asked)
	}
	d := &pluginpb.Description{
		Name: "bare", Version: "1", Summary: "a file", Settings: []*pluginpb.Setting{
			{Key: "path", Kind: 5, Required: true, Help: "the file"},
			{Key: "read_only", Kind: 3, Default: "false", Help: "refuse writes"},
			{Key: "size", Kind: 2, Default: "4MiB", Min: 1 << 20, Max: 1 << 30, Help: "bytes"},
		},
	}
	if fault("undeclared") {
		d.Settings = append(d.Settings, &pluginpb.Setting{Key: "Path", Kind: 3, Default: "maybe"})
	}
	return &backstorepb.DescribeResponse{Ring: true, Runtime: runtime, Description: d}, nil
}

// AttachArena maps the arena.
func (s *server) AttachArena(_ context.Context, r *backstorepb.AttachArenaRequest) (*backstorepb.AttachArenaResponse, error) {
	m, err := shm.Map(s.take(r.Token)[0], int(r.Size), true)
	s.arena = m
	return &backstorepb.AttachArenaResponse{Error: failure(9, err)}, nil
}

// Open opens the file.
func (s *server) Open(ctx context.Context, r *backstorepb.OpenRequest) (*backstorepb.OpenResponse, error) {
	if fault("leaky") {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return nil, err
		}
	}
	st, err := openStore(ctx, r.Config)
	if err != nil {
		return &backstorepb.OpenResponse{Error: failure(9, err)}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.stores[s.last] = st
	return &backstorepb.OpenResponse{Store: s.last, Info: st.info()}, nil
}

// AttachQueue serves a ring.
func (s *server) AttachQueue(_ context.Context, r *backstorepb.AttachQueueRequest) (*backstorepb.AttachQueueResponse, error) {
	fds := s.take(r.Token)
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stores[r.Store]
	if st == nil {
		shm.CloseAll(fds)
		return &backstorepb.AttachQueueResponse{Error: failure(9, errors.New("no such store"))}, nil
	}
	q, err := newQueue(st, s.arena.Bytes(), fds, r.Entries, r.Generation)
	if err != nil {
		return &backstorepb.AttachQueueResponse{Error: failure(9, err)}, nil
	}
	s.last++
	s.queues[s.last] = q
	return &backstorepb.AttachQueueResponse{Queue: s.last}, nil
}

// DetachQueue lets go of a ring.
func (s *server) DetachQueue(ctx context.Context, r *backstorepb.DetachQueueRequest) (*backstorepb.DetachQueueResponse, error) {
	s.mu.Lock()
	q := s.queues[r.Queue]
	delete(s.queues, r.Queue)
	s.mu.Unlock()
	if q == nil {
		return &backstorepb.DetachQueueResponse{Error: failure(9, errors.New("no such queue"))}, nil
	}
	if fault("holding") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	q.stop()
	if fault("clinging") {
		go func() {
			time.Sleep(10 * time.Millisecond)
			s.arena.Bytes()[100] = 1
		}()
	}
	return &backstorepb.DetachQueueResponse{}, nil
}

// CloseStore closes the file.
func (s *server) CloseStore(_ context.Context, r *backstorepb.CloseStoreRequest) (*backstorepb.CloseStoreResponse, error) {
	s.mu.Lock()
	st := s.stores[r.Store]
	delete(s.stores, r.Store)
	s.mu.Unlock()
	if st == nil {
		return &backstorepb.CloseStoreResponse{Error: failure(9, errors.New("no such store"))}, nil
	}
	st.close()
	return &backstorepb.CloseStoreResponse{}, nil
}

// Health tells which rings are broken.
func (s *server) Health(context.Context, *backstorepb.HealthRequest) (*backstorepb.HealthResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &backstorepb.HealthResponse{}
	for id, q := range s.queues {
		out.Queues = append(out.Queues, &backstorepb.QueueHealth{Queue: id, Broken: q.broken()})
	}
	return out, nil
}

// Read, Write and Flush are the slow path.

func (s *server) Read(_ context.Context, r *backstorepb.ReadRequest) (*backstorepb.ReadResponse, error) {
	p := make([]byte, r.Length)
	code := s.find(r.Store).do(1, p, r.Offset)
	return &backstorepb.ReadResponse{Data: p, Error: codeOf(code)}, nil
}

func (s *server) Write(_ context.Context, r *backstorepb.WriteRequest) (*backstorepb.WriteResponse, error) {
	return &backstorepb.WriteResponse{Error: codeOf(s.find(r.Store).do(2, r.Data, r.Offset))}, nil
}

func (s *server) Flush(_ context.Context, r *backstorepb.FlushRequest) (*backstorepb.FlushResponse, error) {
	return &backstorepb.FlushResponse{Error: codeOf(s.find(r.Store).do(3, nil, 0))}, nil
}

func (s *server) find(id uint64) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores[id]
}

func codeOf(code uint16) *backstorepb.Error {
	if code == 0 {
		return nil
	}
	return &backstorepb.Error{Code: uint32(code)}
}
