// Package power knows which power an operation needs, and which method it is.
package power

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Of is the power that an operation needs; none for an operation that needs none, or that there is not.
func Of(op backstore.Op) backstore.Powers {
	switch op {
	case backstore.OpUnmap:
		return backstore.PowerUnmap
	case backstore.OpWriteZeroes:
		return backstore.PowerWriteZeroes
	case backstore.OpCompareAndWrite:
		return backstore.PowerCompareAndWrite
	case backstore.OpWriteSame:
		return backstore.PowerWriteSame
	}
	return 0
}

// Run runs a request by the method of its power, which the store must have: it panics otherwise. An operation that needs no power
// fails with CodeNotSupported.
func Run(ctx context.Context, s backstore.Store, r backstore.Request) error {
	switch r.Op {
	case backstore.OpUnmap:
		return s.(backstore.Unmapper).Unmap(ctx, r.Off, r.N)
	case backstore.OpWriteZeroes:
		return s.(backstore.ZeroWriter).WriteZeroes(ctx, r.Off, r.N, r.Flags)
	case backstore.OpCompareAndWrite:
		half := len(r.Data) / 2
		return s.(backstore.Comparer).CompareAndWrite(ctx, r.Data[:half:half], r.Data[half:], r.Off, r.Flags)
	case backstore.OpWriteSame:
		return s.(backstore.SameWriter).WriteSame(ctx, r.Data, r.Off, r.N, r.Flags)
	}
	return &backstore.Error{Code: backstore.CodeNotSupported}
}
