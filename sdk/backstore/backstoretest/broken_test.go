package backstoretest_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

type mem = backstoretest.Memory

// brokenPowers are stores with one fault in a power, and the check that must find it.
var brokenPowers = map[string]struct {
	wrap func(*mem) backstore.Store
	find string
}{
	"wide":       {func(m *mem) backstore.Store { return wide{m} }, "an_unmap_gives"},
	"promising":  {func(m *mem) backstore.Store { return promising{m} }, "an_unmap_gives"},
	"wavering":   {func(m *mem) backstore.Store { return &wavering{Memory: m} }, "an_unmap_gives"},
	"rounding":   {func(m *mem) backstore.Store { return rounding{m} }, "an_unmap_of_parts"},
	"endless":    {func(m *mem) backstore.Store { return endless{m} }, "powers_outside"},
	"few":        {func(m *mem) backstore.Store { return few{m} }, "zeroes_are_written_to_more"},
	"unmapping":  {func(m *mem) backstore.Store { return unmapping{m} }, "zeroes_are_written_to_their"},
	"same few":   {func(m *mem) backstore.Store { return sameFew{m} }, "one_block"},
	"never":      {func(m *mem) backstore.Store { return never{m} }, "compare-and-write_writes"},
	"vague":      {func(m *mem) backstore.Store { return vague{m} }, "compare-and-write_tells"},
	"eager":      {func(m *mem) backstore.Store { return eager{m} }, "compare-and-write_tells"},
	"racing":     {func(m *mem) backstore.Store { return racing{m} }, "compare-and-write_is_one_step_for_others"},
	"overtaken":  {func(m *mem) backstore.Store { return &overtaken{racing: racing{m}} }, "compare-and-write_is_one_step_for_writes"},
	"chatty":     {func(m *mem) backstore.Store { return chatty{m} }, "health"},
	"silent":     {func(m *mem) backstore.Store { return silent{m} }, "health"},
	"hasty":      {func(m *mem) backstore.Store { return hasty{m} }, "the_watch_of_the_size"},
	"deaf":       {func(m *mem) backstore.Store { return deaf{m} }, "the_watch_of_the_size"},
	"mute":       {func(m *mem) backstore.Store { return mute{m} }, "a_store_that_grows"},
	"keeper":     {func(m *mem) backstore.Store { return keeper{m} }, "a_sanitize_leaves"},
	"destroyer":  {func(m *mem) backstore.Store { return destroyer{m} }, "a_sanitize_leaves"},
	"optimistic": {func(m *mem) backstore.Store { return optimistic{m} }, "a_sanitize_leaves"},
	"stuck":      {func(m *mem) backstore.Store { return stuck{m} }, "a_sanitize_that_is_cancelled"},
	"boasting":   {func(m *mem) backstore.Store { return boasting{struct{ backstore.Store }{m}} }, "geometry"},
}

// wide unmaps a block too many.
type wide struct{ *mem }

func (s wide) Unmap(ctx context.Context, off, n int64) error {
	if off+n < int64(s.Info().Blocks)*512 {
		n += 512
	}
	return s.mem.Unmap(ctx, off, n)
}

// promising says that it has unmapped.
type promising struct{ *mem }

func (promising) Unmap(context.Context, int64, int64) error { return nil }

// wavering reads something else each time where it has unmapped.
type wavering struct {
	*backstoretest.Memory
	off, n int64
}

func (s *wavering) Info() backstore.Info {
	i := s.Memory.Info()
	i.UnmapZeroes = false
	return i
}

func (s *wavering) Unmap(ctx context.Context, off, n int64) error {
	s.off, s.n = off, n
	return s.Memory.Unmap(ctx, off, n)
}

func (s *wavering) Read(ctx context.Context, p []byte, off int64) error {
	err := s.Memory.Read(ctx, p, off)
	if at := s.off - off; s.n > 0 && at >= 0 && at < int64(len(p)) {
		p[at] = byte(rand.Uint32())
	}
	return err
}

// rounding unmaps whole units around what it is asked for.
type rounding struct{ *mem }

func (s rounding) Unmap(ctx context.Context, off, n int64) error {
	end := (off + n + 4095) &^ 4095
	return s.mem.Unmap(ctx, off&^4095, end-off&^4095)
}

// endless does as much as it can.
type endless struct{ *mem }

func (s endless) WriteZeroes(ctx context.Context, off, n int64, f backstore.Flags) error {
	if err := s.mem.WriteZeroes(ctx, off, n, f); backstore.CodeOf(err) != backstore.CodeRange {
		return err
	}
	return nil
}

// few writes at most a MiB of zeroes.
type few struct{ *mem }

func (s few) WriteZeroes(ctx context.Context, off, n int64, f backstore.Flags) error {
	return s.mem.WriteZeroes(ctx, off, min(n, 1<<20), f)
}

// unmapping does nothing where it may unmap.
type unmapping struct{ *mem }

func (s unmapping) WriteZeroes(ctx context.Context, off, n int64, f backstore.Flags) error {
	if f&backstore.MayUnmap != 0 {
		return nil
	}
	return s.mem.WriteZeroes(ctx, off, n, f)
}

// sameFew writes at most 64 blocks.
type sameFew struct{ *mem }

func (s sameFew) WriteSame(ctx context.Context, block []byte, off, n int64, f backstore.Flags) error {
	return s.mem.WriteSame(ctx, block, off, min(n, 64*512), f)
}

// never writes.
type never struct{ *mem }

func (s never) CompareAndWrite(ctx context.Context, expect, _ []byte, off int64, f backstore.Flags) error {
	return s.mem.CompareAndWrite(ctx, expect, expect, off, f)
}

// vague finds every difference at the start.
type vague struct{ *mem }

func (s vague) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, f backstore.Flags) error {
	err := s.mem.CompareAndWrite(ctx, expect, data, off, f)
	if backstore.CodeOf(err) == backstore.CodeMiscompare {
		return backstore.Miscompare(0)
	}
	return err
}

// eager writes block by block, as far as it is as expected.
type eager struct{ *mem }

func (s eager) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, f backstore.Flags) error {
	for at := 0; at < len(expect); at += 512 {
		err := s.mem.CompareAndWrite(ctx, expect[at:at+512], data[at:at+512], off+int64(at), f)
		if e, ok := err.(*backstore.Error); ok && e.Code == backstore.CodeMiscompare {
			return backstore.Miscompare(at + int(e.At))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// racing compares, and writes later.
type racing struct{ *mem }

func (s racing) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, f backstore.Flags) error {
	if err := s.mem.CompareAndWrite(ctx, expect, expect, off, f); err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	return s.Write(ctx, data, off, f)
}

// overtaken keeps comparers apart, and lets writes in between.
type overtaken struct {
	racing
	turn sync.Mutex
}

func (s *overtaken) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, f backstore.Flags) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.racing.CompareAndWrite(ctx, expect, data, off, f)
}

type chatty struct{ *mem }

func (chatty) Health(context.Context) (backstore.Health, error) {
	return backstore.Health{Text: "good\nmorning"}, nil
}

type silent struct{ *mem }

func (silent) Health(context.Context) (backstore.Health, error) {
	return backstore.Health{Condition: backstore.ConditionFailing}, nil
}

// hasty watches for a moment.
type hasty struct{ *mem }

func (hasty) WatchSize(context.Context, func(backstore.Info)) error { return nil }

// deaf watches for ever.
type deaf struct{ *mem }

func (deaf) WatchSize(context.Context, func(backstore.Info)) error { select {} }

// mute tells of nothing.
type mute struct{ *mem }

func (mute) WatchSize(ctx context.Context, _ func(backstore.Info)) error {
	<-ctx.Done()
	return ctx.Err()
}

// keeper keeps everything.
type keeper struct{ *mem }

func (keeper) Sanitize(context.Context, backstore.SanitizeMethod, func(int)) error { return nil }

// destroyer destroys, and says that it cannot.
type destroyer struct{ *mem }

func (s destroyer) Sanitize(ctx context.Context, m backstore.SanitizeMethod, progress func(int)) error {
	err := s.mem.Sanitize(ctx, m, progress)
	if err != nil {
		_ = s.mem.Sanitize(ctx, backstore.SanitizeOverwrite, progress)
	}
	return err
}

// optimistic is further than it can be.
type optimistic struct{ *mem }

func (s optimistic) Sanitize(ctx context.Context, m backstore.SanitizeMethod, progress func(int)) error {
	return s.mem.Sanitize(ctx, m, func(n int) { progress(n + 1) })
}

// stuck waits when it is cancelled.
type stuck struct{ *mem }

func (s stuck) Sanitize(ctx context.Context, m backstore.SanitizeMethod, progress func(int)) error {
	if ctx.Err() != nil {
		select {}
	}
	return s.mem.Sanitize(ctx, m, progress)
}

// boasting names powers that it does not have.
type boasting struct{ backstore.Store }

func (s boasting) Info() backstore.Info {
	i := s.Store.Info()
	i.Powers = backstore.PowerUnmap
	return i
}
