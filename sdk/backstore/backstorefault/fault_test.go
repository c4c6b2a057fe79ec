package backstorefault_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstorefault"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

const bs = 512

func memory() *backstoretest.Memory {
	return backstoretest.NewMemory(backstore.Info{BlockSize: bs, Blocks: 4096, FUA: true, WriteCache: true})
}

// inner is a store with powers that remembers what reached it.
type inner struct {
	plain
	flushes, fua, same int
}

// plain is a Memory without its powers.
type plain struct{ backstore.Store }

func (i *inner) Flush(ctx context.Context) error { i.flushes++; return nil }

func (i *inner) Write(ctx context.Context, p []byte, off int64, f backstore.Flags) error {
	if f&backstore.FUA != 0 {
		i.fua++
	}
	return i.Store.Write(ctx, p, off, f)
}

func (i *inner) WriteSame(ctx context.Context, block []byte, off, n int64, f backstore.Flags) error {
	i.same++
	return i.Store.Write(ctx, bytes.Repeat(block, int(n)/len(block)), off, f)
}

func (i *inner) Health(context.Context) (backstore.Health, error) {
	return backstore.Health{Text: "as ever"}, nil
}

type opener struct{ s backstore.Store }

func (o opener) Open(_ context.Context, config map[string]string) (backstore.Store, error) {
	for k := range config {
		return nil, errors.New(k + ": no such key")
	}
	return o.s, nil
}

func TestWrapperWithoutRulesPassesTheKit(t *testing.T) {
	backstoretest.Test(t, backstoretest.Subject{
		Backstore: opener{backstorefault.Wrap(memory(), 1)},
		Config:    func(testing.TB) map[string]string { return map[string]string{} },
	})
}

func TestWrapperHasThePowersOfItsStoreAndNoOthers(t *testing.T) {
	if p := backstore.PowersOf(backstorefault.Wrap(plain{memory()}, 1)); p != 0 {
		t.Errorf("of none: %v", p)
	}
	s := backstorefault.Wrap(&inner{plain: plain{memory()}}, 1)
	if p := backstore.PowersOf(s); p != backstore.PowerWriteSame|backstore.PowerHealth {
		t.Errorf("of two: %v", p)
	}
	if h, err := s.Health(t.Context()); h.Text != "as ever" || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestRulesChooseRequests(t *testing.T) {
	fault := backstorefault.Error(backstore.CodeBusy)
	for name, c := range map[string]struct {
		rule backstorefault.Rule
		want []int // which of ten reads fail
	}{
		"every one":    {backstorefault.Rule{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"every third":  {backstorefault.Rule{Every: 3}, []int{2, 5, 8}},
		"after seven":  {backstorefault.Rule{After: 7}, []int{7, 8, 9}},
		"two times":    {backstorefault.Rule{Every: 2, Times: 2}, []int{1, 3}},
		"other kind":   {backstorefault.Rule{Match: backstorefault.Writes}, nil},
		"other place":  {backstorefault.Rule{Match: backstorefault.Within(3*bs, 2*bs)}, []int{3, 4}},
		"that matches": {backstorefault.Rule{Match: func(q backstore.Request) bool { return q.Off == 5*bs }}, []int{5}},
	} {
		c.rule.Fault = fault
		s := backstorefault.Wrap(memory(), 1, c.rule)
		if got := failing(t, s, 10); !slices.Equal(got, c.want) || s.Happened()[0] != len(c.want) {
			t.Errorf("%s: %v and %v, want %v", name, got, s.Happened(), c.want)
		}
	}
}

// failing makes n reads, of one block each, and tells which failed with CodeBusy.
func failing(t *testing.T, s *backstorefault.Store, n int) (out []int) {
	t.Helper()
	for i := range n {
		err := s.Read(t.Context(), make([]byte, bs), int64(i)*bs)
		switch backstore.CodeOf(err) {
		case backstore.CodeBusy:
			out = append(out, i)
		case backstore.CodeOK:
		default:
			t.Errorf("read %d: %v", i, err)
		}
	}
	return out
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	rule := backstorefault.Rule{Chance: 0.3, Fault: backstorefault.Error(backstore.CodeBusy)}
	first := failing(t, backstorefault.Wrap(memory(), 7, rule), 200)
	if again := failing(t, backstorefault.Wrap(memory(), 7, rule), 200); !slices.Equal(first, again) {
		t.Errorf("%v, then %v", first, again)
	}
	if other := failing(t, backstorefault.Wrap(memory(), 8, rule), 200); slices.Equal(first, other) {
		t.Error("another seed gives the same")
	}
	if len(first) < 30 || len(first) > 90 {
		t.Errorf("%d of 200 with a chance of 0.3", len(first))
	}
}

func TestTornWriteLandsAPrefixOfWholeBlocks(t *testing.T) {
	data := bytes.Repeat([]byte{0xaa}, 8*bs)
	for _, blocks := range []int{0, 3, 100, -1} {
		m := memory()
		s := backstorefault.Wrap(m, 3, backstorefault.Rule{Fault: backstorefault.TornWrite(blocks, backstore.CodeNoSpace)})
		if c := backstore.CodeOf(s.Write(t.Context(), data, 0, 0)); c != backstore.CodeNoSpace {
			t.Errorf("%d: %v", blocks, c)
		}
		got := make([]byte, 8*bs)
		if err := m.Read(t.Context(), got, 0); err != nil {
			t.Fatal(err)
		}
		n := bytes.Count(got, []byte{0xaa})
		if want := min(blocks, 7) * bs; (blocks >= 0 && n != want) || n%bs != 0 || n == 8*bs || !bytes.Equal(got[:n], data[:n]) {
			t.Errorf("%d: %d bytes landed", blocks, n)
		}
	}
}

func TestTornWriteSameLandsAPart(t *testing.T) {
	i := &inner{plain: plain{memory()}}
	s := backstorefault.Wrap(i, 3, backstorefault.Rule{Fault: backstorefault.TornWrite(2, backstore.CodeIO)})
	err := s.WriteSame(t.Context(), bytes.Repeat([]byte{1}, bs), 0, 4*bs, 0)
	got := make([]byte, 4*bs)
	if rerr := i.Read(t.Context(), got, 0); rerr != nil {
		t.Fatal(rerr)
	}
	if n := bytes.Count(got, []byte{1}); backstore.CodeOf(err) != backstore.CodeIO || n != 2*bs {
		t.Errorf("%v, %d bytes", err, n)
	}
}

func TestShortReadFillsAPartAndLeavesTheRest(t *testing.T) {
	m := memory()
	if err := m.Write(t.Context(), bytes.Repeat([]byte{0xaa}, 4*bs), 0, 0); err != nil {
		t.Fatal(err)
	}
	s := backstorefault.Wrap(m, 3, backstorefault.Rule{Fault: backstorefault.ShortRead(1, backstore.CodeIO)})
	p := bytes.Repeat([]byte{0x11}, 4*bs)
	err := s.Read(t.Context(), p, 0)
	if backstore.CodeOf(err) != backstore.CodeIO || bytes.Count(p, []byte{0xaa}) != bs || bytes.Count(p, []byte{0x11}) != 3*bs {
		t.Errorf("%v, %d and %d bytes", err, bytes.Count(p, []byte{0xaa}), bytes.Count(p, []byte{0x11}))
	}
}

func TestLostFlushIsNotDoneAndSaysOK(t *testing.T) {
	i := &inner{plain: plain{memory()}}
	s := backstorefault.Wrap(i, 3, backstorefault.Rule{Times: 2, Fault: backstorefault.LostFlush()})
	for range 2 {
		if err := errors.Join(s.Write(t.Context(), make([]byte, bs), 0, backstore.FUA), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if i.fua != 1 || i.flushes != 1 {
		t.Errorf("%d writes with FUA and %d flushes arrived, of two each of which one was to be lost", i.fua, i.flushes)
	}
}

func TestDelayWaitsAndGoesWithAnotherFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := backstorefault.Wrap(memory(), 3, backstorefault.Rule{Fault: backstorefault.Delay(time.Second)},
			backstorefault.Rule{Every: 2, Fault: backstorefault.Error(backstore.CodeBusy)})
		begin := time.Now()
		first, second := s.Flush(t.Context()), s.Flush(t.Context())
		if first != nil || backstore.CodeOf(second) != backstore.CodeBusy || time.Since(begin) != 2*time.Second {
			t.Errorf("%v, %v after %v", first, second, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if c := backstore.CodeOf(s.Flush(ctx)); c != backstore.CodeAborted {
			t.Errorf("cancelled: %v", c)
		}
	})
}
