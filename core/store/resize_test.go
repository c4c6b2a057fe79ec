package store

import (
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

type nobody struct{}

func (nobody) Completed(*Request) {}

func TestGuardHoldsRequestsToTheSizeOfNow(t *testing.T) {
	g, err := Open(NewLocal(NewMemory(8*512), 4), Config{Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(off int64) backstore.Code {
		return g.check(&Request{Op: backstore.OpRead, Off: off, Data: make([]byte, 512), Owner: nobody{}})
	}
	for _, c := range []struct {
		blocks  uint64
		in, out int64
	}{{8, 7 * 512, 8 * 512}, {16, 15 * 512, 16 * 512}, {4, 3 * 512, 4 * 512}} {
		if err := g.Resize(c.blocks); err != nil || g.Info().Blocks != c.blocks {
			t.Fatalf("%d blocks: %v, %+v", c.blocks, err, g.Info())
		}
		if in, out := read(c.in), read(c.out); in != backstore.CodeOK || out != backstore.CodeRange {
			t.Errorf("%d blocks: %v inside, %v outside", c.blocks, in, out)
		}
	}
	for _, blocks := range []uint64{0, 1 << 60, 1<<64 - 1} {
		if err := g.Resize(blocks); !errors.Is(err, ErrInfo) || g.Info().Blocks != 4 {
			t.Errorf("%d blocks: %v, %+v", blocks, err, g.Info())
		}
	}
}
