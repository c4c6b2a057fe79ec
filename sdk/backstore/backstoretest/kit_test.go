package backstoretest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

// memory opens the store of its field again and again, wrapped.
type memory struct {
	store *backstoretest.Memory
	wrap  func(backstore.Store) backstore.Store
}

func (m memory) Open(_ context.Context, config map[string]string) (backstore.Store, error) {
	for k := range config {
		if k != "read-only" {
			return nil, fmt.Errorf("there is no key %q", k)
		}
	}
	return m.wrap(m.store), nil
}

func subject(wrap func(backstore.Store) backstore.Store) backstoretest.Subject {
	m := backstoretest.NewMemory(backstore.Info{BlockSize: 512, Blocks: 4096, FUA: true, WriteCache: true,
		UnmapGranularity: 4096, UnmapZeroes: true, MaxCompareAndWrite: 8192})
	return backstoretest.Subject{
		Backstore: memory{store: m, wrap: wrap},
		Config:    func(testing.TB) map[string]string { return map[string]string{} },
		Grow:      func(testing.TB, map[string]string) { m.Resize(m.Info().Blocks + 8) },
	}
}

func TestMemoryPasses(t *testing.T) {
	backstoretest.Test(t, subject(func(s backstore.Store) backstore.Store { return s }))
}

func TestAsyncMemoryPasses(t *testing.T) {
	backstoretest.Test(t, subject(func(s backstore.Store) backstore.Store {
		return backstoretest.AsyncMemory{Memory: s.(*backstoretest.Memory)}
	}))
}

func TestEngineMemoryPasses(t *testing.T) {
	backstoretest.Test(t, subject(func(s backstore.Store) backstore.Store {
		return backstoretest.EngineMemory{Memory: s.(*backstoretest.Memory)}
	}))
}

// TestStoreWithoutPowersPasses has the kit skip what the store cannot do.
func TestStoreWithoutPowersPasses(t *testing.T) {
	backstoretest.Test(t, subject(func(s backstore.Store) backstore.Store { return struct{ backstore.Store }{s} }))
}

// broken are stores with one fault, and the check that must find it.
var broken = map[string]brokenStore{
	"torn":      {func(s backstore.Store) backstore.Store { return torn{s} }, "every_length"},
	"forgetful": {func(s backstore.Store) backstore.Store { return forgetful{s} }, "every_place"},
	"greedy":    {func(s backstore.Store) backstore.Store { return greedy{s} }, "a_read_changes"},
	"careless":  {func(s backstore.Store) backstore.Store { return careless{s} }, "what_lies_outside"},
	"huge":      {func(s backstore.Store) backstore.Store { return huge{s} }, "geometry"},
	"twice": {func(s backstore.Store) backstore.Store {
		return twice{backstoretest.AsyncMemory{Memory: s.(*backstoretest.Memory)}}
	}, "a_batch_mixes"},
	"lazy": {func(s backstore.Store) backstore.Store {
		return lazy{backstoretest.AsyncMemory{Memory: s.(*backstoretest.Memory)}}
	}, "many_requests"},
	"double": {func(s backstore.Store) backstore.Store {
		return double{backstoretest.EngineMemory{Memory: s.(*backstoretest.Memory)}}
	}, "a_batch_mixes"},
	"keeping": {func(s backstore.Store) backstore.Store {
		return keeping{backstoretest.EngineMemory{Memory: s.(*backstoretest.Memory)}}
	}, "every_place"},
}

type brokenStore struct {
	wrap func(backstore.Store) backstore.Store
	find string
}

// double has engines that return each request two times.
type double struct{ backstoretest.EngineMemory }

func (s double) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := s.EngineMemory.NewEngine(ctx, wake, depth)
	return doubleEngine{e}, err
}

type doubleEngine struct{ backstore.Engine }

func (e doubleEngine) Poll(res []backstore.Result) int {
	n := e.Engine.Poll(res[:len(res)/2])
	copy(res[n:], res[:n])
	return 2 * n
}

// keeping has engines that look at the batch after Submit has returned.
type keeping struct{ backstoretest.EngineMemory }

func (s keeping) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := s.EngineMemory.NewEngine(ctx, wake, depth)
	return &keepingEngine{Engine: e, wake: wake}, err
}

type keepingEngine struct {
	backstore.Engine
	wake int
	kept [][]backstore.Request
	tags []uint64
}

func (e *keepingEngine) Submit(reqs []backstore.Request) {
	e.kept = append(e.kept, reqs)
	for i := range reqs {
		e.tags = append(e.tags, reqs[i].Tag)
	}
	_, _ = syscall.Write(e.wake, []byte{1, 1, 1, 1, 1, 1, 1, 1})
}

func (e *keepingEngine) Poll(res []backstore.Result) int {
	for _, reqs := range e.kept {
		for i := range reqs {
			reqs[i].Tag, e.tags = e.tags[0], e.tags[1:]
		}
		e.Engine.Submit(reqs)
	}
	e.kept = nil
	return e.Engine.Poll(res)
}

type torn struct{ backstore.Store }

func (s torn) Write(ctx context.Context, p []byte, off int64, f backstore.Flags) error {
	if len(p) > 1024 {
		p = p[:len(p)-512]
	}
	return s.Store.Write(ctx, p, off, f)
}

type forgetful struct{ backstore.Store }

func (forgetful) Write(context.Context, []byte, int64, backstore.Flags) error { return nil }

type greedy struct{ backstore.Store }

func (s greedy) Read(ctx context.Context, p []byte, off int64) error {
	return s.Store.Read(ctx, overrun(p), off)
}

type careless struct{ backstore.Store }

func (s careless) Read(ctx context.Context, p []byte, off int64) error {
	_ = s.Store.Read(ctx, p, off)
	return nil
}

type huge struct{ backstore.Store }

func (s huge) Info() backstore.Info {
	i := s.Store.Info()
	i.PhysicalBlockSize = 768
	return i
}

type twice struct{ backstoretest.AsyncMemory }

func (s twice) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	s.AsyncMemory.Submit(reqs, func(r backstore.Result) { done(r); done(r) })
}

// lazy looks at the batch after Submit has returned.
type lazy struct{ backstoretest.AsyncMemory }

func (s lazy) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	tags := make([]uint64, len(reqs))
	for i := range reqs {
		tags[i] = reqs[i].Tag
	}
	go func() {
		for i, tag := range tags {
			r := reqs[i]
			s.AsyncMemory.Submit([]backstore.Request{r}, func(res backstore.Result) {
				res.Tag = tag
				done(res)
			})
		}
	}()
}

// TestKitFindsBrokenStores runs the kit on each broken store in a process of its own, where it must fail.
func TestKitFindsBrokenStores(t *testing.T) {
	for name, b := range brokenPowers {
		broken[name] = brokenStore{func(s backstore.Store) backstore.Store { return b.wrap(s.(*backstoretest.Memory)) }, b.find}
	}
	if name := os.Getenv("BACKSTORETEST_BROKEN"); name != "" {
		s := subject(broken[name].wrap)
		s.Patience = 2 * time.Second
		backstoretest.Test(t, s)
		return
	}
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestKitFindsBrokenStores$")
			cmd.Env = append(os.Environ(), "BACKSTORETEST_BROKEN="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the kit passes a store that is %s", name)
			}
			if !strings.Contains(string(out), "FAIL: TestKitFindsBrokenStores/"+b.find) {
				t.Errorf("the check %q did not find it:\n%s", b.find, out)
			}
		})
	}
}
