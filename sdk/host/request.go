package host

import (
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/power"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// allPowers are the powers that this host knows.
const allPowers = backstore.PowerSanitize<<1 - 1

// maxCompare is the longest compare-and-write in bytes of data to write that a plugin may offer.
const maxCompare = 32 << 20

// checkPowers checks what a plugin says of a store's powers, and fills in what 0 means.
func checkPowers(i *backstore.Info) error {
	if i.UnmapGranularity == 0 {
		i.UnmapGranularity = i.BlockSize
	}
	if i.MaxCompareAndWrite == 0 {
		i.MaxCompareAndWrite = i.BlockSize
	}
	switch g, m := i.UnmapGranularity, i.MaxCompareAndWrite; {
	case g < i.BlockSize || g&(g-1) != 0:
		return fmt.Errorf("host: the plugin says that it unmaps units of %d bytes, of blocks of %d", g, i.BlockSize)
	case m%i.BlockSize != 0 || m > maxCompare:
		return fmt.Errorf("host: the plugin says that it compares and writes %d bytes at once; whole blocks up to %d can be", m, maxCompare)
	}
	return nil
}

// refuses returns why a request for a power cannot be sent, or CodeOK. The ranges are the plugin's to check, as ever.
func (q *Queue) refuses(r *backstore.Request) backstore.Code {
	if q.info.Powers&power.Of(r.Op) == 0 {
		return backstore.CodeNotSupported
	}
	ok := r.N > 0
	switch n := uint64(len(r.Data)); r.Op {
	case backstore.OpUnmap, backstore.OpWriteZeroes:
		ok = ok && n == 0
	case backstore.OpWriteSame:
		ok = ok && n == uint64(q.info.BlockSize)
	case backstore.OpCompareAndWrite:
		ok = r.N == 0 && n > 0 && n%2 == 0 && n/2 <= uint64(q.info.MaxCompareAndWrite)
	}
	if !ok || r.N > 1<<63-1-r.Off || r.Flags&^flagsOf(r.Op) != 0 {
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

// flagsOf are the flags that a power's operation may have.
func flagsOf(op backstore.Op) backstore.Flags {
	switch op {
	case backstore.OpUnmap:
		return 0
	case backstore.OpWriteZeroes:
		return backstore.FUA | backstore.MayUnmap
	}
	return backstore.FUA
}

// checkMiscompare is the ring's check of a miscompare, for an answer that came another way.
func checkMiscompare(r *backstore.Request, at uint32) error {
	switch {
	case r.Op != backstore.OpCompareAndWrite:
		return &ring.Violation{Breach: ring.BreachCode, Got: uint64(backstore.CodeMiscompare), Limit: uint64(backstore.CodeInvalid)}
	case uint64(at) >= uint64(len(r.Data)/2):
		return &ring.Violation{Breach: ring.BreachAt, Got: uint64(at), Limit: uint64(len(r.Data) / 2)}
	}
	return nil
}
