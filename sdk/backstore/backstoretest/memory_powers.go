package backstoretest

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Unmap makes zeroes of the range.
func (m *Memory) Unmap(_ context.Context, off, n int64) error {
	return m.change(off, n, 0, zero)
}

// WriteZeroes makes zeroes of the range.
func (m *Memory) WriteZeroes(_ context.Context, off, n int64, flags backstore.Flags) error {
	return m.change(off, n, flags, zero)
}

func zero(is []byte) error {
	clear(is)
	return nil
}

// CompareAndWrite writes data where expect is.
func (m *Memory) CompareAndWrite(_ context.Context, expect, data []byte, off int64, flags backstore.Flags) error {
	return m.change(off, int64(len(expect)), flags, func(is []byte) error {
		if at := differ(is, expect); at >= 0 {
			return backstore.Miscompare(at)
		}
		copy(is, data)
		return nil
	})
}

// differ returns the offset of the first byte in which two slices of one length differ, or -1.
func differ(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// WriteSame writes block all over the range.
func (m *Memory) WriteSame(_ context.Context, block []byte, off, n int64, flags backstore.Flags) error {
	return m.change(off, n, flags, func(is []byte) error {
		for len(is) > 0 {
			is = is[copy(is, block):]
		}
		return nil
	})
}

// Resize changes the size of the store to a number of blocks.
func (m *Memory) Resize(blocks uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := make([]byte, blocks*uint64(m.info.BlockSize))
	copy(data, m.data)
	m.data, m.info.Blocks = data, blocks
	select {
	case m.resized <- struct{}{}:
	default:
	}
}

// WatchSize tells of each Resize.
func (m *Memory) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.resized:
			changed(m.Info())
		}
	}
}

// Health is good.
func (m *Memory) Health(context.Context) (backstore.Health, error) { return backstore.Health{}, nil }

// Sanitize can overwrite.
func (m *Memory) Sanitize(_ context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	if method != backstore.SanitizeOverwrite {
		return &backstore.Error{Code: backstore.CodeNotSupported}
	}
	progress(0)
	size := int64(m.Info().Blocks) * int64(m.Info().BlockSize)
	err := m.change(0, size, 0, zero)
	progress(1000)
	return err
}
