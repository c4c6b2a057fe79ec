package backstoretest

import (
	"context"
	"maps"
	"strings"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// opening are the checks that open stores themselves.
var opening = []check{
	{"geometry is one that a host can use", checkGeometry},
	{"an unknown key is refused by name", checkUnknownKey},
	{"an open that is cancelled does not hang", checkCancelledOpen},
	{"what was flushed is there after Close and Open", checkReopen},
	{"a read-only store refuses writes and keeps its data", checkReadOnly},
}

func checkGeometry(r *run) {
	r.open()
	i := r.info
	pb := i.PhysicalBlockSize
	switch {
	case i.BlockSize != 512 && i.BlockSize != 4096:
		r.Errorf("BlockSize is %d; 512 or 4096 can be", i.BlockSize)
	case pb != 0 && (pb < i.BlockSize || pb&(pb-1) != 0):
		r.Errorf("PhysicalBlockSize is %d, of blocks of %d", pb, i.BlockSize)
	case i.Blocks == 0 || i.Blocks > (1<<63-1)/uint64(i.BlockSize):
		r.Errorf("Blocks is %d", i.Blocks)
	case i.MaxTransfer != 0 && (i.MaxTransfer < 4096 || i.MaxTransfer%i.BlockSize != 0):
		r.Errorf("MaxTransfer is %d, of blocks of %d", i.MaxTransfer, i.BlockSize)
	case i.Concurrency < 0:
		r.Errorf("Concurrency is %d", i.Concurrency)
	case i.UnmapGranularity != 0 && (i.UnmapGranularity < i.BlockSize || i.UnmapGranularity&(i.UnmapGranularity-1) != 0):
		r.Errorf("UnmapGranularity is %d, of blocks of %d", i.UnmapGranularity, i.BlockSize)
	case i.MaxCompareAndWrite%i.BlockSize != 0 || i.MaxCompareAndWrite > 32<<20:
		r.Errorf("MaxCompareAndWrite is %d, of blocks of %d; whole blocks up to 32 MiB can be", i.MaxCompareAndWrite, i.BlockSize)
	case i.Powers&^backstore.PowersOf(r.store) != 0:
		r.Errorf("Powers are %v, and the methods are those of %v", i.Powers, backstore.PowersOf(r.store))
	case strings.ContainsAny(i.Notice+i.Serial, "\n\r"):
		r.Error("Notice or Serial has more than one line")
	}
	if again := r.store.Info(); again != i {
		r.Errorf("Info answers %+v and then %+v", i, again)
	}
}

func checkUnknownKey(r *run) {
	const key = "no-such-key-of-any-store"
	config := maps.Clone(r.config)
	config[key] = "1"
	s, err := r.Backstore.Open(r.ctx, config)
	if err == nil {
		s.Close()
		r.Fatal("Open took a key that cannot be in the documentation")
	}
	if !strings.Contains(err.Error(), key) {
		r.Errorf("the error does not name the key: %v", err)
	}
}

func checkCancelledOpen(r *run) {
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	s, err := r.Backstore.Open(ctx, r.config)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		r.Logf("Open: %v", err)
	}
	r.open() // and nothing is left that keeps the store
}

func checkReopen(r *run) {
	r.open()
	if r.Volatile {
		r.Skip("the store is volatile")
	}
	b := newBuffer(r, 2*r.bs)
	last := r.size - int64(2*r.bs)
	for _, off := range []int64{0, last} {
		fill(b.data(2*r.bs), off, 1)
		r.must("Write", r.write(b.data(2*r.bs), off))
	}
	r.must("Flush", r.flush())
	before := r.info
	r.close()
	r.reopen(r.config)
	if r.info.BlockSize != before.BlockSize || r.info.Blocks != before.Blocks {
		r.Errorf("the geometry changed from %+v to %+v", before, r.info)
	}
	for _, off := range []int64{0, last} {
		clear(b.data(2 * r.bs))
		r.must("Read", r.read(b.data(2*r.bs), off))
		if !holds(b.data(2*r.bs), off, 1) {
			r.Errorf("at %d is not what was written and flushed before Close", off)
		}
	}
}

func checkReadOnly(r *run) {
	r.open()
	if r.Subject.ReadOnly == nil {
		r.Skip("the subject has no read-only configuration")
	}
	b := newBuffer(r, r.bs)
	fill(b.data(r.bs), 0, 1)
	r.must("Write", r.write(b.data(r.bs), 0))
	r.must("Flush", r.flush())
	r.close()
	r.reopen(r.Subject.ReadOnly(r.config))
	if !r.info.ReadOnly {
		r.Fatal("Info does not say that the store is read-only")
	}
	fill(b.data(r.bs), 0, 2)
	if c := r.write(b.data(r.bs), 0); c != backstore.CodeReadOnly {
		r.Errorf("Write: %v, want %v", c, backstore.CodeReadOnly)
	}
	r.must("Read", r.read(b.data(r.bs), 0))
	if !holds(b.data(r.bs), 0, 1) {
		r.Error("the refused write changed the data")
	}
}
