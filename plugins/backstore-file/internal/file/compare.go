package file

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// maxCompare is the longest compare-and-write in bytes: as many of the largest blocks as a command can name.
const maxCompare = 1 << 20

// poolStore is a store whose every write goes through Write, so that it can compare and write in one step. With io_uring writes do
// not, and the host does it: it knows of every command.
type poolStore struct{ *store }

// Info implements backstore.Store.
func (s poolStore) Info() backstore.Info {
	i := s.store.Info()
	i.MaxCompareAndWrite = maxCompare
	return i
}

// CompareAndWrite implements backstore.Comparer. No write is under way meanwhile; a read comes before or during its write, as
// with every write.
func (s poolStore) CompareAndWrite(_ context.Context, expect, data []byte, off int64, flags backstore.Flags) error {
	if err := s.io.Check(off, len(data)); err != nil {
		return err
	}
	s.partial.Lock()
	defer s.partial.Unlock()
	span, start := s.span(off, len(data))
	if err := s.io.Read(span, start); err != nil {
		return err
	}
	is := span[off-start:][:len(expect)]
	for i := range is {
		if is[i] != expect[i] {
			return backstore.Miscompare(i)
		}
	}
	copy(is, data)
	return s.io.Write(span, start, flags)
}
