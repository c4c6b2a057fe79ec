package backstorefault

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Read reads, or meets a fault.
func (s *Store) Read(ctx context.Context, p []byte, off int64) error {
	f, done, err := s.meet(ctx, backstore.Request{Op: backstore.OpRead, Off: off, Data: p})
	switch {
	case err != nil:
		return err
	case f.kind == short:
		return f.partly(done, func(n int64) error { return s.inner.Read(ctx, p[:n:n], off) })
	}
	return s.inner.Read(ctx, p, off)
}

// Write writes, or meets a fault.
func (s *Store) Write(ctx context.Context, p []byte, off int64, flags backstore.Flags) error {
	f, done, err := s.meet(ctx, backstore.Request{Op: backstore.OpWrite, Flags: flags, Off: off, Data: p})
	switch {
	case err != nil:
		return err
	case f.kind == torn:
		return f.partly(done, func(n int64) error { return s.inner.Write(ctx, p[:n:n], off, flags) })
	}
	return s.inner.Write(ctx, p, off, f.flags(flags))
}

// Flush flushes, or meets a fault.
func (s *Store) Flush(ctx context.Context) error {
	f, _, err := s.meet(ctx, backstore.Request{Op: backstore.OpFlush})
	if err != nil || f.kind == lost {
		return err
	}
	return s.inner.Flush(ctx)
}

// The rest is called only if the wrapped store has the power.

// Unmap unmaps, or meets a fault.
func (s *Store) Unmap(ctx context.Context, off, n int64) error {
	if _, _, err := s.meet(ctx, backstore.Request{Op: backstore.OpUnmap, Off: off, N: n}); err != nil {
		return err
	}
	return s.inner.(backstore.Unmapper).Unmap(ctx, off, n)
}

// WriteZeroes writes zeroes, or meets a fault.
func (s *Store) WriteZeroes(ctx context.Context, off, n int64, flags backstore.Flags) error {
	inner := s.inner.(backstore.ZeroWriter)
	f, done, err := s.meet(ctx, backstore.Request{Op: backstore.OpWriteZeroes, Flags: flags, Off: off, N: n})
	switch {
	case err != nil:
		return err
	case f.kind == torn:
		return f.partly(done, func(n int64) error { return inner.WriteZeroes(ctx, off, n, flags) })
	}
	return inner.WriteZeroes(ctx, off, n, f.flags(flags))
}

// WriteSame writes a block many times, or meets a fault.
func (s *Store) WriteSame(ctx context.Context, block []byte, off, n int64, flags backstore.Flags) error {
	inner := s.inner.(backstore.SameWriter)
	f, done, err := s.meet(ctx, backstore.Request{Op: backstore.OpWriteSame, Flags: flags, Off: off, N: n, Data: block})
	switch {
	case err != nil:
		return err
	case f.kind == torn:
		return f.partly(done, func(n int64) error { return inner.WriteSame(ctx, block, off, n, flags) })
	}
	return inner.WriteSame(ctx, block, off, n, f.flags(flags))
}

// CompareAndWrite compares and writes, or meets a fault.
func (s *Store) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, flags backstore.Flags) error {
	both := append(append([]byte(nil), expect...), data...)
	f, _, err := s.meet(ctx, backstore.Request{Op: backstore.OpCompareAndWrite, Flags: flags, Off: off, Data: both})
	switch {
	case err != nil:
		return err
	case f.kind == torn:
		return f.error()
	}
	return s.inner.(backstore.Comparer).CompareAndWrite(ctx, expect, data, off, f.flags(flags))
}

// WatchSize is the wrapped store's.
func (s *Store) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	return s.inner.(backstore.Resizer).WatchSize(ctx, changed)
}

// Health is the wrapped store's.
func (s *Store) Health(ctx context.Context) (backstore.Health, error) {
	return s.inner.(backstore.HealthReporter).Health(ctx)
}

// Sanitize is the wrapped store's.
func (s *Store) Sanitize(ctx context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	return s.inner.(backstore.Sanitizer).Sanitize(ctx, method, progress)
}
