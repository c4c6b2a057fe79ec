package pluginhost

import (
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func TestStoreThatBreaksWhatInitiatorsWereToldIsNotServed(t *testing.T) {
	was := backstore.Info{BlockSize: 512, Blocks: 100, MaxTransfer: 1 << 20, FUA: true,
		Powers: backstore.PowerUnmap | backstore.PowerHealth, UnmapZeroes: true, MaxCompareAndWrite: 1024}
	for _, c := range []struct {
		name   string
		change func(*backstore.Info)
		ok     bool
	}{
		{"unchanged", func(*backstore.Info) {}, true},
		{"longer", func(i *backstore.Info) { i.Blocks++ }, true},
		{"shorter", func(i *backstore.Info) { i.Blocks-- }, false},
		{"other blocks", func(i *backstore.Info) { i.BlockSize = 4096 }, false},
		{"read-only", func(i *backstore.Info) { i.ReadOnly = true }, false},
		{"without FUA", func(i *backstore.Info) { i.FUA = false }, false},
		{"with a cache", func(i *backstore.Info) { i.WriteCache = true }, false},
		{"longer transfers", func(i *backstore.Info) { i.MaxTransfer *= 2 }, true},
		{"no limit of a transfer", func(i *backstore.Info) { i.MaxTransfer = 0 }, true},
		{"shorter transfers", func(i *backstore.Info) { i.MaxTransfer /= 2 }, false},
		{"another power", func(i *backstore.Info) { i.Powers |= backstore.PowerSanitize }, true},
		{"a power less", func(i *backstore.Info) { i.Powers = backstore.PowerHealth }, false},
		{"rubbish after unmap", func(i *backstore.Info) { i.UnmapZeroes = false }, false},
		{"a shorter comparison", func(i *backstore.Info) { i.MaxCompareAndWrite = 512 }, false},
		{"another notice", func(i *backstore.Info) { i.Notice = "no direct I/O" }, true},
	} {
		is := was
		c.change(&is)
		err := same(was, is)
		if c.ok && err != nil || !c.ok && !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
