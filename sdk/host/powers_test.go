package host_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const allPowers = backstore.PowerSanitize<<1 - 1

// powerWays are the data paths and kinds of store that requests for powers take.
var powerWays = []struct {
	name        string
	slow, unary bool
	mode        string
}{
	{"ring, calls", false, false, "call"}, {"ring, submit", false, false, "submit"},
	{"stream", true, false, "call"}, {"stream, submit", true, false, "submit"}, {"unary", true, true, "call"},
}

// result submits one request and waits for its whole result.
func result(t testing.TB, q *host.Queue, r backstore.Request) backstore.Result {
	t.Helper()
	if n := q.Submit([]backstore.Request{r}); n != 1 {
		t.Fatalf("Submit took %d", n)
	}
	q.Flush()
	res := make([]backstore.Result, 2)
	for end := time.Now().Add(patience); ; {
		n := q.Poll(res)
		if n == 1 {
			return res[0]
		}
		if q.Arm() {
			wait(t, q, end)
		}
	}
}

func TestPowersTravelEveryWay(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, way := range powerWays {
		t.Run(way.name, func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Slow = way.slow })
			if way.unary {
				p.Unary()
			}
			s := open(t, p, map[string]string{"mode": way.mode, "powers": "true"})
			if got := s.Info().Powers; got != allPowers {
				t.Fatalf("powers %v", got)
			}
			q := queue(t, s, host.QueueOptions{Entries: 16})
			b := a.Bytes()
			old, same, is := b[:512], b[4096:4096+512], b[8192:8192+4*512]
			both := b[16384 : 16384+1024]
			must := func(r backstore.Request) {
				t.Helper()
				if c := one(t, q, r); c != backstore.CodeOK {
					t.Fatalf("operation %d: %v", r.Op, c)
				}
			}
			see := func(want ...byte) {
				t.Helper()
				must(backstore.Request{Op: backstore.OpRead, Data: is})
				for i, w := range want {
					if !bytes.Equal(is[i*512:(i+1)*512], bytes.Repeat([]byte{w}, 512)) {
						t.Errorf("block %d is %x..., want %x", i, is[i*512:i*512+4], w)
					}
				}
			}
			copy(same, bytes.Repeat([]byte{7}, 512))
			must(backstore.Request{Op: backstore.OpWriteSame, Flags: backstore.FUA, Data: same, N: 4 * 512})
			see(7, 7, 7, 7)
			must(backstore.Request{Op: backstore.OpUnmap, Off: 512, N: 512})
			see(7, 0, 7, 7)
			must(backstore.Request{Op: backstore.OpWriteZeroes, Flags: backstore.FUA | backstore.MayUnmap, Off: 1024, N: 1024})
			see(7, 0, 0, 0)
			copy(both, bytes.Repeat([]byte{7}, 512))
			copy(both[512:], bytes.Repeat([]byte{9}, 512))
			must(backstore.Request{Op: backstore.OpCompareAndWrite, Data: both})
			see(9, 0, 0, 0)
			copy(both, bytes.Repeat([]byte{9}, 300))
			got := result(t, q, backstore.Request{Tag: 5, Op: backstore.OpCompareAndWrite, Data: both})
			if want := (backstore.Result{Tag: 5, Code: backstore.CodeMiscompare, At: 300}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			see(9, 0, 0, 0)
			got = result(t, q, backstore.Request{Tag: 6, Op: backstore.OpRead, Data: old})
			if want := (backstore.Result{Tag: 6}); got != want {
				t.Errorf("after a miscompare: %+v", got)
			}
		})
	}
}

func TestPowersAreHeldAgainstTheStore(t *testing.T) {
	a := newArena(t, 1<<20)
	b := a.Bytes()
	for _, way := range powerWays {
		t.Run(way.name, func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Slow = way.slow })
			if way.unary {
				p.Unary()
			}
			// Whatever reaches the store is an I/O error.
			q := queue(t, open(t, p, map[string]string{"mode": way.mode, "powers": "true", "fail": "1"}), host.QueueOptions{Entries: 4})
			size := int64(2048 * 512)
			unmap := func(off, n int64) backstore.Request { return backstore.Request{Op: backstore.OpUnmap, Off: off, N: n} }
			for _, c := range []struct {
				name string
				r    backstore.Request
				want backstore.Code
			}{
				{"the last block", unmap(size-512, 512), backstore.CodeIO},
				{"everything", unmap(0, size), backstore.CodeIO},
				{"a block beyond", unmap(512, size), backstore.CodeRange},
				{"far outside", unmap(1<<62, 512), backstore.CodeRange},
				{"more than there can be", unmap(512, 1<<63-1), backstore.CodeInvalid},
				{"nothing", unmap(0, 0), backstore.CodeInvalid},
				{"a negative extent", unmap(512, -512), backstore.CodeInvalid},
				{"part of a block", unmap(0, 100), backstore.CodeInvalid},
				{"unmap with data", backstore.Request{Op: backstore.OpUnmap, N: 512, Data: b[:512]}, backstore.CodeInvalid},
				{"unmap with FUA", backstore.Request{Op: backstore.OpUnmap, Flags: backstore.FUA, N: 512}, backstore.CodeInvalid},
				{"write same of two blocks", backstore.Request{Op: backstore.OpWriteSame, N: 1024, Data: b[:1024]}, backstore.CodeInvalid},
				{"half a compare", backstore.Request{Op: backstore.OpCompareAndWrite, Data: b[:512]}, backstore.CodeInvalid},
				{"a long compare", backstore.Request{Op: backstore.OpCompareAndWrite, Data: b[:2048]}, backstore.CodeInvalid},
				{"an odd compare", backstore.Request{Op: backstore.OpCompareAndWrite, Data: b[:3]}, backstore.CodeInvalid},
				{"a compare outside", backstore.Request{Op: backstore.OpCompareAndWrite, Off: size, Data: b[:1024]}, backstore.CodeRange},
				{"foreign memory", backstore.Request{Op: backstore.OpCompareAndWrite, Data: make([]byte, 1024)}, backstore.CodeInvalid},
				{"no operation", backstore.Request{Op: backstore.OpWriteSame + 1, N: 512}, backstore.CodeNotSupported},
			} {
				if got := one(t, q, c.r); got != c.want {
					t.Errorf("%s: %v, want %v", c.name, got, c.want)
				}
			}
			q = queue(t, open(t, p, map[string]string{"mode": way.mode}), host.QueueOptions{Entries: 4})
			if got := one(t, q, unmap(0, 512)); got != backstore.CodeNotSupported {
				t.Errorf("without the power: %v", got)
			}
			q = queue(t, open(t, p, map[string]string{"mode": way.mode, "powers": "true", "read-only": "true"}), host.QueueOptions{Entries: 4})
			if got := one(t, q, unmap(0, 512)); got != backstore.CodeReadOnly {
				t.Errorf("read-only: %v", got)
			}
		})
	}
}

// A compare-and-write that is sent again would find what it wrote itself, and tell of a difference.
func TestCompareAndWriteIsNotSentAgain(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, way := range powerWays {
		t.Run(way.name, func(t *testing.T) {
			config := map[string]string{"path": filepath.Join(t.TempDir(), "store"), "mode": way.mode, "powers": "true"}
			slow := func(o *host.Options) { o.Slow = way.slow }
			first := start(t, a, slow)
			if way.unary {
				first.Unary()
			}
			q := queue(t, open(t, first, config), host.QueueOptions{Entries: 8, Hold: patience})
			b := a.Bytes()
			clear(b[:2048])
			copy(b[512:], "EXIT")
			q.Submit([]backstore.Request{{Tag: 1, Op: backstore.OpCompareAndWrite, Data: b[:1024]}})
			q.Flush()
			await(t, first.Dead(), "death")
			if got := collect(t, q, 1)[1]; got != backstore.CodeAborted || !a.Tainted(b[:1024]) {
				t.Errorf("%v, tainted: %v; want %v at once, and that the memory waits for the fence", got, a.Tainted(b[:1024]), backstore.CodeAborted)
			}
			// One that was never sent goes to the next process.
			q.Submit([]backstore.Request{{Tag: 2, Op: backstore.OpCompareAndWrite, Off: 512, Data: b[1024:2048]}})
			if err := open(t, start(t, a, slow), config).Attach(soon(t), q); err != nil {
				t.Fatal(err)
			}
			if got := collect(t, q, 1)[2]; got != backstore.CodeOK {
				t.Errorf("the one that was never sent: %v", got)
			}
		})
	}
}

func TestQueueIsNotAttachedToAStoreThatLostAPower(t *testing.T) {
	a := newArena(t, 4096)
	config := map[string]string{"powers": "true"}
	p := start(t, a, nil)
	q := queue(t, open(t, p, config), host.QueueOptions{Entries: 4})
	p.Kill()
	await(t, p.Dead(), "death")
	p = start(t, a, nil)
	if err := open(t, p, nil).Attach(soon(t), q); !errors.Is(err, host.ErrPower) || !strings.Contains(err.Error(), "unmap") {
		t.Errorf("%v", err)
	}
	if err := open(t, p, config).Attach(soon(t), q); err != nil {
		t.Error(err)
	}
}

func TestSizeIsWatchedUntilTheEnd(t *testing.T) {
	a := newArena(t, 1<<20)
	s := open(t, start(t, a, nil), map[string]string{"powers": "true"})
	q := queue(t, s, host.QueueOptions{Entries: 4})
	grow := func() {
		copy(a.Bytes(), "GROW")
		if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: a.Bytes()[:512]}); c != backstore.CodeOK {
			t.Fatal(c)
		}
	}
	grow() // before anybody watches
	sizes, ended := make(chan uint64, 16), make(chan error, 1)
	ctx, cancel := context.WithCancel(soon(t))
	go func() { ended <- s.WatchSize(ctx, func(i backstore.Info) { sizes <- i.Blocks }) }()
	want := func(blocks uint64) {
		t.Helper()
		for {
			select {
			case n := <-sizes:
				if n == blocks {
					return
				}
			case <-time.After(patience):
				t.Fatalf("nobody tells of %d blocks", blocks)
			}
		}
	}
	want(2049)
	// What has grown can be asked for: here the store itself fails, and not the check before it.
	grow()
	want(2050)
	if c := one(t, q, backstore.Request{Op: backstore.OpRead, Off: 2050 * 512, Data: a.Bytes()[:512]}); c != backstore.CodeRange {
		t.Errorf("beyond the new end: %v", c)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	go func() { ended <- s.WatchSize(soon(t), func(i backstore.Info) { sizes <- i.Blocks }) }()
	grow()
	want(2051)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(soon(t)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the watch ended without a reason")
	}
}

func TestWatchDoesNotHoldUpTheEndOfAProcess(t *testing.T) {
	p := start(t, newArena(t, 4096), nil)
	s := open(t, p, map[string]string{"powers": "true"})
	told, ended := make(chan uint64, 1), make(chan error, 1)
	go func() { ended <- s.WatchSize(soon(t), func(i backstore.Info) { told <- i.Blocks }) }()
	p.Close(soon(t))
	if how := p.Ending(); how != "exit status 0" {
		t.Errorf("ending %q", how)
	}
	if err := <-ended; err == nil {
		t.Error("the watch ended without a reason")
	}
}

func TestHealthIsOneLine(t *testing.T) {
	p := start(t, newArena(t, 4096), nil)
	h, err := open(t, p, map[string]string{"powers": "true"}).Health(soon(t))
	if want := (backstore.Health{Condition: backstore.ConditionDegraded, Text: "a test in two lines"}); err != nil || h != want {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := open(t, p, nil).Health(soon(t)); !errors.Is(err, host.ErrPower) {
		t.Errorf("without the power: %v", err)
	}
}

func TestSanitizeHasTheStoreForItself(t *testing.T) {
	a := newArena(t, 1<<20)
	s := open(t, start(t, a, nil), map[string]string{"powers": "true"})
	q := queue(t, s, host.QueueOptions{Entries: 4})
	data := a.Bytes()[:512]
	copy(data, "SLOW and secret")
	if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: data}); c != backstore.CodeOK {
		t.Fatal(c)
	}
	code := func(err error) backstore.Code {
		var e *host.Error
		if !errors.As(err, &e) {
			t.Errorf("%v is not the plugin's", err)
			return 0
		}
		return e.Code
	}
	if err := s.Sanitize(soon(t), backstore.SanitizeOverwrite, nil); code(err) != backstore.CodeBusy {
		t.Errorf("with a queue: %v", err)
	}
	q.Close()
	if err := s.Sanitize(soon(t), backstore.SanitizeCrypto, nil); code(err) != backstore.CodeNotSupported {
		t.Errorf("a method that it cannot do: %v", err)
	}
	ctx, cancel := context.WithCancel(soon(t))
	began, ended := make(chan int, 16), make(chan error, 1)
	go func() {
		ended <- s.Sanitize(ctx, backstore.SanitizeOverwrite, func(n int) { began <- n })
	}()
	if n := <-began; n != 500 && n != 1000 {
		t.Errorf("progress %d", n)
	}
	if q, err := s.NewQueue(soon(t), host.QueueOptions{Entries: 4}); code(err) != backstore.CodeBusy {
		t.Errorf("a queue meanwhile: %v, %v", q, err)
	}
	if _, err := s.Health(soon(t)); err != nil {
		t.Errorf("health meanwhile: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// The plugin lets go a moment later.
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if q, err = s.NewQueue(soon(t), host.QueueOptions{Entries: 4}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "fast")
	one(t, q, backstore.Request{Op: backstore.OpWrite, Data: data})
	q.Close()
	last := -1
	if err := s.Sanitize(soon(t), backstore.SanitizeOverwrite, func(n int) {
		if n <= last || n > 1000 {
			t.Errorf("progress %d after %d", n, last)
		}
		last = n
	}); err != nil {
		t.Fatal(err)
	}
	q = queue(t, s, host.QueueOptions{Entries: 4})
	if c := one(t, q, backstore.Request{Op: backstore.OpRead, Data: data}); c != backstore.CodeOK || data[0] != 0 {
		t.Errorf("%v, %q", c, data[:8])
	}
}

func TestPluginSaysWhatItIs(t *testing.T) {
	a := newArena(t, 4096)
	p := start(t, a, func(o *host.Options) { o.Args = []string{"describe"} })
	d, ok := p.Description()
	if !ok || d.Name != "test" || len(d.Settings) != 2 || d.Settings[1].Max != 1<<20 {
		t.Errorf("%v, %+v", ok, d)
	}
	if d, ok := start(t, a, nil).Description(); ok {
		t.Errorf("one that does not: %+v", d)
	}
	_, err := host.Start(soon(t), host.Options{Path: testPlugin, Arena: a, Log: logger(t), Args: []string{"describe-badly"}})
	if err == nil || !strings.Contains(err.Error(), "testplugin") || !strings.Contains(err.Error(), `default "many" is not a whole number`) {
		t.Errorf("a schema that cannot work: %v", err)
	}
}
