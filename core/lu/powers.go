package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// features are the commands of a disk that depend on what its store can do.
type features uint8

const (
	featureUnmap   features = 1 << iota // UNMAP, and the UNMAP bit of WRITE SAME
	featureSame                         // WRITE SAME
	featureCompare                      // COMPARE AND WRITE

	allFeatures = featureUnmap | featureSame | featureCompare
)

func (f features) has(q features) bool { return f&q == q }

// Bounds of the work that one command can ask for, whatever the store's size: one request of it must end well within the
// deadline of a store's requests, after which the store's process is replaced.
const (
	maxUnmapBlocks      = 1 << 20
	maxUnmapBytes       = 1 << 30
	maxUnmapDescriptors = 256
	maxSameBytes        = 64 << 20
	maxCompareBlocks    = 255 // MAXIMUM COMPARE AND WRITE LENGTH is one byte
	// sameChunk is how much is written at a time where a WRITE SAME becomes plain writes.
	sameChunk = 256 << 10
)

// sameByPower are the powers of which one is enough for WRITE SAME; what the store lacks then becomes plain writes.
const sameByPower = backstore.PowerUnmap | backstore.PowerWriteZeroes | backstore.PowerWriteSame

// usePowers fills in what the powers of the store make of the device. Longest is the longest transfer in bytes.
func (g *geometry) usePowers(cfg *Config, longest uint32) {
	i, bs := &g.info, g.info.BlockSize
	var f features
	if i.Powers.Has(backstore.PowerUnmap) {
		f |= featureUnmap
		g.useUnmap()
	}
	if i.Powers&sameByPower != 0 {
		f |= featureSame
		g.limits.MaxWriteSame = uint64(maxSameBytes / bs)
		g.chunk = uint64(min(sameChunk, longest) / bs * bs)
	}
	// Without the power there is no COMPARE AND WRITE: a read and a write would not be one step for the other reactors.
	if most := min(max(i.MaxCompareAndWrite, bs), cfg.MaxTransfer/2) / bs; i.Powers.Has(backstore.PowerCompareAndWrite) && most > 0 {
		f |= featureCompare
		g.limits.MaxCompareAndWrite = uint8(min(most, maxCompareBlocks))
	}
	g.kind = &disks[f]
}

func (g *geometry) useUnmap() {
	bs := g.info.BlockSize
	grain := max(g.info.UnmapGranularity, bs) / bs
	g.limits.UnmapGranularity = grain
	g.limits.MaxUnmap = max(min(maxUnmapBlocks, maxUnmapBytes/bs), grain)
	g.limits.MaxUnmapDescriptors = maxUnmapDescriptors
	g.provisioning = scsi.Provisioning{Thin: true, UnmapZeroes: g.info.UnmapZeroes}
	g.capacity.Thin, g.capacity.UnmapZeroes = true, g.info.UnmapZeroes
}

// sameOp is what the store is asked for a WRITE SAME, whose block is all zeroes or not.
//
// The UNMAP bit is a permission. It is used if nobody can tell the difference afterwards: what reads back is zeroes, and that
// is what was to be written. The Linux kernel's target unmaps whatever the block is.
func (g *geometry) sameOp(c scsi.CDB, zero bool) backstore.Op {
	p := g.info.Powers
	switch {
	case zero && c.MayUnmap() && p.Has(backstore.PowerUnmap) && g.info.UnmapZeroes:
		return backstore.OpUnmap
	case zero && p.Has(backstore.PowerWriteZeroes):
		return backstore.OpWriteZeroes
	case p.Has(backstore.PowerWriteSame):
		return backstore.OpWriteSame
	}
	return backstore.OpWrite
}

// sameRoom is the size of the buffer for a WRITE SAME of n bytes, in which its block is the first.
func (g *geometry) sameRoom(n uint64) uint64 {
	if g.info.Powers.Has(backstore.PowerWriteSame) {
		return uint64(g.info.BlockSize)
	}
	return min(n, g.chunk)
}
