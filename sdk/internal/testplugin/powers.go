package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// able is the store with every power. A written block of the word GROW adds a block to what it says its size is, which
// the file path.blocks keeps.
type able struct {
	*store
	compare sync.Mutex

	mu     sync.Mutex
	blocks uint64
	grown  chan struct{} // has room for one
}

func newAble(s *store) *able {
	a := &able{store: s, blocks: s.info.Blocks}
	if b, err := os.ReadFile(s.path + ".blocks"); err == nil {
		if n, err := strconv.ParseUint(string(b), 10, 40); err == nil {
			a.blocks = n
		}
	}
	return a
}

func (a *able) Info() backstore.Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.info
	i.Blocks = a.blocks
	return i
}

func (a *able) Write(ctx context.Context, p []byte, off int64, f backstore.Flags) error {
	if err := a.store.Write(ctx, p, off, f); err != nil || !bytes.HasPrefix(p, []byte("GROW")) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks++
	if a.path != "" {
		if err := os.WriteFile(a.path+".blocks", fmt.Append(nil, a.blocks), 0o600); err != nil {
			return err
		}
	}
	if a.grown != nil {
		select {
		case a.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

func (a *able) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	a.mu.Lock()
	a.grown = make(chan struct{}, 1)
	a.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.grown:
		}
		changed(a.Info())
	}
}

func (a *able) zero(off, n int64) error {
	if err := a.begin(); err != nil {
		return err
	}
	clear(a.data[off : off+n])
	return nil
}

func (a *able) Unmap(_ context.Context, off, n int64) error { return a.zero(off, n) }

func (a *able) WriteZeroes(_ context.Context, off, n int64, _ backstore.Flags) error {
	return a.zero(off, n)
}

// CompareAndWrite ends the process, as a crash would, after it has written a block of the word EXIT.
func (a *able) CompareAndWrite(_ context.Context, expect, data []byte, off int64, _ backstore.Flags) error {
	if err := a.begin(); err != nil {
		return err
	}
	a.compare.Lock()
	defer a.compare.Unlock()
	is := a.data[off : off+int64(len(expect))]
	for i := range is {
		if is[i] != expect[i] {
			return backstore.Miscompare(i)
		}
	}
	copy(is, data)
	if bytes.HasPrefix(data, []byte("EXIT")) {
		os.Exit(9)
	}
	return nil
}

func (a *able) WriteSame(_ context.Context, block []byte, off, n int64, _ backstore.Flags) error {
	if err := a.begin(); err != nil {
		return err
	}
	for end := off + n; off < end; off += int64(len(block)) {
		copy(a.data[off:], block)
	}
	return nil
}

func (a *able) Health(context.Context) (backstore.Health, error) {
	return backstore.Health{Condition: backstore.ConditionDegraded, Text: "a test\nin two lines"}, nil
}

// Sanitize overwrites, and goes on for ever if the first block has the word SLOW.
func (a *able) Sanitize(ctx context.Context, m backstore.SanitizeMethod, progress func(int)) error {
	if m != backstore.SanitizeOverwrite {
		return &backstore.Error{Code: backstore.CodeNotSupported}
	}
	slow := bytes.HasPrefix(a.data, []byte("SLOW"))
	for _, p := range []int{-1, 500, 200, 5000} {
		progress(p)
	}
	for slow {
		select {
		case <-ctx.Done():
			return &backstore.Error{Code: backstore.CodeAborted, Err: ctx.Err()}
		case <-time.After(time.Millisecond):
		}
	}
	clear(a.data)
	return nil
}

// ableAsync is able as a Submitter.
type ableAsync struct{ *able }

func (a ableAsync) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	async{a.store}.Submit(reqs, done)
}

// describing says what it is.
type describing struct {
	opener
	well bool
}

func (d describing) Describe() schema.Description {
	out := schema.Description{Name: "test", Version: "1.0.0", Summary: "what the SDK's own tests start", Settings: schema.Schema{
		{Key: "path", Kind: schema.KindPath, Required: true, Help: "the file"},
		{Key: "blocks", Kind: schema.KindNumber, Default: "2048", Min: 1, Max: 1 << 20, Help: "how many"},
	}}
	if !d.well {
		out.Settings[1].Default = "many"
	}
	return out
}
