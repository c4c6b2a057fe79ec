package store

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// bufferAlign is the alignment of buffers in an arena that backends are promised, in bytes.
const bufferAlign = 4096

// check says whether r may go to a backend.
func (g *Guard) check(r *Request) backstore.Code {
	switch {
	case g.closed:
		return backstore.CodeUnavailable
	case r.state != requestIdle || r.Owner == nil:
		return backstore.CodeInvalid
	}
	return g.checkOp(r)
}

// checkOp checks what a change of backend may change.
func (g *Guard) checkOp(r *Request) backstore.Code {
	rule := r.rule()
	switch {
	case rule == nil:
		return backstore.CodeInvalid
	case rule.changes && g.info.ReadOnly:
		return backstore.CodeReadOnly
	case r.Flags&^rule.flags != 0:
		return backstore.CodeInvalid
	case !g.info.Powers.Has(rule.power), r.Flags&backstore.FUA != 0 && !g.info.FUA:
		return backstore.CodeNotSupported
	case rule.data == dataFlush:
		if r.Off != 0 || len(r.Data) != 0 || r.N != 0 {
			return backstore.CodeInvalid
		}
		return backstore.CodeOK
	}
	if code := g.checkExtent(r); code != backstore.CodeOK {
		return code
	}
	return g.checkData(r, rule.data)
}

// checkExtent checks that a request is about whole blocks inside the store. What is negative is larger than any store here.
func (g *Guard) checkExtent(r *Request) backstore.Code {
	bs := uint64(g.info.BlockSize)
	n, off := uint64(r.Extent()), uint64(r.Off)
	switch {
	case n > g.size || off > g.size-n:
		return backstore.CodeRange
	case n == 0 || n%bs != 0 || off%bs != 0:
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

// checkData checks what a request carries. That it is whole blocks follows from its extent where that is told by Data.
func (g *Guard) checkData(r *Request, rule dataRule) backstore.Code {
	n, ok := uint64(len(r.Data)), false
	switch rule {
	case dataNone:
		return codeIf(n == 0)
	case dataBlocks:
		ok = n <= uint64(g.info.MaxTransfer) && r.N == 0
	case dataTwice:
		ok = n%2 == 0 && n/2 <= uint64(g.info.MaxCompareAndWrite) && r.N == 0
	case dataOne:
		ok = n == uint64(g.info.BlockSize)
	}
	return codeIf(ok && (g.cfg.Arena == nil || liesIn(g.cfg.Arena, r.Data)))
}

func codeIf(ok bool) backstore.Code {
	if ok {
		return backstore.CodeOK
	}
	return backstore.CodeInvalid
}

// describe asks b for its description, checks it, and fills in what it leaves open.
func (g *Guard) describe(op string, b Backend) (backstore.Info, error) {
	info := b.Info()
	if info.PhysicalBlockSize == 0 {
		info.PhysicalBlockSize = info.BlockSize
	}
	if why := impossible(&info); why != "" {
		return info, g.errorf(op, "%s: %w", why, ErrInfo)
	}
	if info.MaxTransfer == 0 {
		info.MaxTransfer = math.MaxUint32
	}
	// A limit inside a block or below one is no use to anybody.
	info.MaxTransfer -= info.MaxTransfer % info.BlockSize
	info.ReadOnly = info.ReadOnly || g.cfg.ReadOnly
	describePowers(&info)
	return info, nil
}

// describePowers fills in what belongs to the powers, and takes away what belongs to one that is not there.
func describePowers(i *backstore.Info) {
	switch {
	case !i.Powers.Has(backstore.PowerUnmap):
		i.UnmapGranularity, i.UnmapZeroes = 0, false
	case i.UnmapGranularity == 0:
		i.UnmapGranularity = i.BlockSize
	}
	switch {
	case !i.Powers.Has(backstore.PowerCompareAndWrite):
		i.MaxCompareAndWrite = 0
	case i.MaxCompareAndWrite == 0:
		i.MaxCompareAndWrite = i.BlockSize
	}
	i.MaxCompareAndWrite -= i.MaxCompareAndWrite % i.BlockSize
}

func impossible(i *backstore.Info) string {
	bs := i.BlockSize
	switch {
	case bs != 512 && bs != 4096:
		return fmt.Sprintf("block size is %d bytes, neither 512 nor 4096", bs)
	case i.Blocks == 0:
		return "the store has no blocks"
	case i.Blocks > math.MaxInt64/uint64(bs):
		return fmt.Sprintf("%d blocks of %d bytes are more than an offset can hold", i.Blocks, bs)
	case !timesPowerOfTwo(i.PhysicalBlockSize, bs):
		return fmt.Sprintf("physical block size %d is no power of two multiple of %d", i.PhysicalBlockSize, bs)
	case i.MaxTransfer != 0 && i.MaxTransfer < bs:
		return fmt.Sprintf("longest transfer is %d bytes, less than a block of %d", i.MaxTransfer, bs)
	case i.UnmapGranularity != 0 && !timesPowerOfTwo(i.UnmapGranularity, bs):
		return fmt.Sprintf("unmap granularity %d is no power of two multiple of %d", i.UnmapGranularity, bs)
	case i.MaxCompareAndWrite != 0 && i.MaxCompareAndWrite < bs:
		return fmt.Sprintf("longest compare and write is %d bytes, less than a block of %d", i.MaxCompareAndWrite, bs)
	}
	return ""
}

// timesPowerOfTwo tells whether n is unit times a power of two; unit is not 0.
func timesPowerOfTwo(n, unit uint32) bool { return n%unit == 0 && bits.OnesCount32(n/unit) == 1 }
