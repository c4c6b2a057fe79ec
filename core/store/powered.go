package store

import (
	"bytes"
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Powered is a Memory that can do more: unmap, which zeroes, write zeroes, compare and write, and write same.
type Powered struct{ *Memory }

// NewPowered returns a Powered that describes itself as info. Its Unmap leaves parts of units of info.UnmapGranularity as
// they are, unless info.UnmapZeroes promises zeroes.
func NewPowered(info backstore.Info) *Powered { return &Powered{Memory: NewMemoryInfo(info)} }

// change calls f with n bytes from off, which nobody else reads or writes meanwhile.
func (m *Memory) change(off, n int64, f func(part []byte) error) error {
	if m.info.ReadOnly {
		return &backstore.Error{Code: backstore.CodeReadOnly}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	part, err := m.part(int(n), off)
	if err != nil {
		return err
	}
	return f(part)
}

func zero(part []byte) error {
	clear(part)
	return nil
}

// Unmap implements backstore.Unmapper.
func (p *Powered) Unmap(_ context.Context, off, n int64) error {
	if grain := int64(p.info.UnmapGranularity); grain > 0 && !p.info.UnmapZeroes {
		end := (off + n) / grain * grain
		off = (off + grain - 1) / grain * grain
		n = end - off
	}
	if n <= 0 {
		return nil
	}
	return p.change(off, n, zero)
}

// WriteZeroes implements backstore.ZeroWriter.
func (p *Powered) WriteZeroes(_ context.Context, off, n int64, _ backstore.Flags) error {
	return p.change(off, n, zero)
}

// CompareAndWrite implements backstore.Comparer.
func (p *Powered) CompareAndWrite(_ context.Context, expect, data []byte, off int64, _ backstore.Flags) error {
	return p.change(off, int64(len(data)), func(part []byte) error {
		if bytes.Equal(part, expect) {
			copy(part, data)
			return nil
		}
		at := 0
		for part[at] == expect[at] {
			at++
		}
		return backstore.Miscompare(at)
	})
}

// WriteSame implements backstore.SameWriter.
func (p *Powered) WriteSame(_ context.Context, block []byte, off, n int64, _ backstore.Flags) error {
	return p.change(off, n, func(part []byte) error {
		for len(part) > 0 {
			part = part[copy(part, block):]
		}
		return nil
	})
}
