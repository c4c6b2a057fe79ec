package backstoretest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// medium are the checks of the powers that have no requests.
var medium = []check{
	{"health is told in one line", checkHealth},
	{"the watch of the size ends when it is told to", checkWatchEnds},
	{"a store that grows tells so", checkGrowth},
	{"a sanitize leaves nothing", checkSanitize},
	{"a sanitize that is cancelled does not hang", checkCancelledSanitize},
}

func checkHealth(r *run) {
	r.need(backstore.PowerHealth)
	h, err := r.able.(backstore.HealthReporter).Health(r.ctx)
	switch {
	case err != nil:
		r.Errorf("Health: %v", err)
	case h.Condition > backstore.ConditionFailing:
		r.Errorf("the condition is %v", h.Condition)
	case strings.ContainsAny(h.Text, "\n\r") || len(h.Text) > 1024 || !utf8.ValidString(h.Text):
		r.Errorf("the text is not one line: %q", h.Text)
	case h.Condition != backstore.ConditionGood && h.Text == "":
		r.Errorf("the condition is %v, and nobody is told why", h.Condition)
	}
}

// watch begins to watch the store's size. stop ends that and fails unless WatchSize returns.
func (r *run) watch(changed func(backstore.Info)) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.able.(backstore.Resizer).WatchSize(ctx, changed) }()
	return func() {
		r.Helper()
		select {
		case err := <-ended:
			r.Errorf("WatchSize returned before its context ended: %v", err)
			cancel()
			return
		default:
		}
		cancel()
		select {
		case <-ended:
		case <-r.ctx.Done():
			r.Error("WatchSize does not return after its context has ended")
		}
	}
}

func checkWatchEnds(r *run) {
	r.need(backstore.PowerResize)
	stop := r.watch(func(i backstore.Info) {
		r.Errorf("a change that nobody made: %d blocks, were %d", i.Blocks, r.info.Blocks)
	})
	b := newBuffer(r, r.bs)
	for range 20 {
		r.must("Write", r.write(b.data(r.bs), 0))
		r.must("Flush", r.flush())
	}
	time.Sleep(200 * time.Millisecond) // for one that returns at once to have done so
	stop()
}

func checkGrowth(r *run) {
	r.need(backstore.PowerResize)
	if r.Grow == nil {
		r.Skip("the subject cannot make a store grow")
	}
	was, told := r.info, make(chan backstore.Info, 64)
	stop := r.watch(func(i backstore.Info) {
		select {
		case told <- i:
		default:
		}
	})
	defer stop()
	r.Subject.Grow(r, r.config)
	select {
	case i := <-told:
		if i.BlockSize != was.BlockSize || i.Blocks <= was.Blocks {
			r.Fatalf("it has grown from %d blocks of %d bytes, and says %d of %d", was.Blocks, was.BlockSize, i.Blocks, i.BlockSize)
		}
		b := newBuffer(r, r.bs)
		last := (int64(i.Blocks) - 1) * int64(r.bs)
		fill(b.data(r.bs), last, 1)
		r.must("Write to the new last block", r.write(b.data(r.bs), last))
		clear(b.data(r.bs))
		r.must("Read of the new last block", r.read(b.data(r.bs), last))
		if !holds(b.data(r.bs), last, 1) {
			r.Error("the new last block is not what was written")
		}
	case <-r.ctx.Done():
		r.Fatal("it has grown and does not say so")
	}
}

// sanitize fails the check if Sanitize does not return.
func (r *run) sanitize(ctx context.Context, m backstore.SanitizeMethod, progress func(int)) error {
	r.Helper()
	ended := make(chan error, 1)
	go func() { ended <- r.able.(backstore.Sanitizer).Sanitize(ctx, m, progress) }()
	select {
	case err := <-ended:
		return err
	case <-r.ctx.Done():
		r.Fatal("Sanitize does not return")
		return nil
	}
}

func checkSanitize(r *run) {
	r.need(backstore.PowerSanitize)
	n, can := int(min(r.size, most)), 0
	for _, m := range []backstore.SanitizeMethod{backstore.SanitizeOverwrite, backstore.SanitizeBlock, backstore.SanitizeCrypto, backstore.SanitizeCrypto + 1} {
		a := r.paint(n, byte(m))
		r.must("Flush", r.flush())
		var wrong atomic.Int64
		err := r.sanitize(r.ctx, m, func(permille int) {
			if permille < 0 || permille > 1000 {
				wrong.Store(int64(permille))
			}
		})
		if n := wrong.Load(); n != 0 {
			r.Errorf("%v: the progress is %d of 1000", m, n)
		}
		var e *backstore.Error
		if errors.As(err, &e) && e.Code == backstore.CodeNotSupported {
			a.see(0, 0) // and destroys nothing
			continue
		}
		if err != nil {
			r.Fatalf("%v: %v", m, err)
		}
		can++
		r.sanitized(a, m)
	}
	if can == 0 {
		r.Error("the store sanitizes by none of the methods")
	}
}

// sanitized fails if a block of the area is what it was.
func (r *run) sanitized(a *area, m backstore.SanitizeMethod) {
	r.Helper()
	all := a.see(0, a.n)
	if m == backstore.SanitizeOverwrite && !zeroes(all) {
		r.Fatal("what was overwritten does not read as zeroes")
	}
	for off := 0; off < a.n; off += r.bs {
		if holds(all[off:off+r.bs], int64(off), a.round) {
			r.Fatalf("%v: the block at %d is still there", m, off)
		}
	}
}

func checkCancelledSanitize(r *run) {
	r.need(backstore.PowerSanitize)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.sanitize(ctx, backstore.SanitizeOverwrite, func(int) {}); err != nil {
		r.Logf("Sanitize: %v", err)
	}
	b := newBuffer(r, r.bs)
	r.must("Write afterwards", r.write(b.data(r.bs), 0))
}
