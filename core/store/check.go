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
	switch r.Op {
	case backstore.OpRead:
		if r.Flags != 0 {
			return backstore.CodeInvalid
		}
		return g.checkTransfer(r)
	case backstore.OpWrite:
		switch {
		case g.info.ReadOnly:
			return backstore.CodeReadOnly
		case r.Flags&^backstore.FUA != 0:
			return backstore.CodeInvalid
		case r.Flags != 0 && !g.info.FUA:
			return backstore.CodeNotSupported
		}
		return g.checkTransfer(r)
	case backstore.OpFlush:
		if r.Off != 0 || len(r.Data) != 0 || r.Flags != 0 {
			return backstore.CodeInvalid
		}
		return backstore.CodeOK
	}
	return backstore.CodeInvalid
}

func (g *Guard) checkTransfer(r *Request) backstore.Code {
	n, bs := uint64(len(r.Data)), uint64(g.info.BlockSize)
	off := uint64(r.Off)
	switch {
	case r.Off < 0 || n > g.size || off > g.size-n:
		return backstore.CodeRange
	case n == 0 || n%bs != 0 || off%bs != 0:
		return backstore.CodeInvalid
	case n > uint64(g.info.MaxTransfer):
		return backstore.CodeInvalid
	case g.cfg.Arena != nil && !liesIn(g.cfg.Arena, r.Data):
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
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
	return info, nil
}

func impossible(i *backstore.Info) string {
	bs := i.BlockSize
	ratio := i.PhysicalBlockSize / max(bs, 1)
	switch {
	case bs != 512 && bs != 4096:
		return fmt.Sprintf("block size is %d bytes, neither 512 nor 4096", bs)
	case i.Blocks == 0:
		return "the store has no blocks"
	case i.Blocks > math.MaxInt64/uint64(bs):
		return fmt.Sprintf("%d blocks of %d bytes are more than an offset can hold", i.Blocks, bs)
	case i.PhysicalBlockSize%bs != 0 || bits.OnesCount32(ratio) != 1:
		return fmt.Sprintf("physical block size %d is no power of two multiple of %d", i.PhysicalBlockSize, bs)
	case i.MaxTransfer != 0 && i.MaxTransfer < bs:
		return fmt.Sprintf("longest transfer is %d bytes, less than a block of %d", i.MaxTransfer, bs)
	}
	return ""
}
