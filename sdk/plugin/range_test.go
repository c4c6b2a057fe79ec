package plugin

import (
	"math"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

// Whatever a ring carries as offset and extent, the answer is code 6 and not a stopped ring.
func TestExtentsOutsideTheStoreAreAnsweredOutOfRange(t *testing.T) {
	s, err := newStore(backstoretest.NewMemory(backstore.Info{BlockSize: 512, Blocks: 8}))
	if err != nil {
		t.Fatal(err)
	}
	minus := uint64(math.MaxUint64) - 511
	for _, r := range []backstore.Request{
		{Op: backstore.OpUnmap, Off: 512, N: math.MaxInt64 - 511},
		{Op: backstore.OpUnmap, Off: 512, N: int64(minus)},
		{Op: backstore.OpWriteZeroes, Off: int64(minus), N: 512},
		{Op: backstore.OpWriteZeroes, Off: 4096, N: 512},
		{Op: backstore.OpWriteSame, Off: 512, N: math.MinInt64, Data: make([]byte, 512)},
		{Op: backstore.OpCompareAndWrite, Off: 4096, Data: make([]byte, 1024)},
	} {
		if c := s.check(&r); c != backstore.CodeRange {
			t.Errorf("%v at %d, %d bytes: %v", r.Op, r.Off, r.N, c)
		}
	}
}
