package nvme

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const (
	// page is the unit of MDTS, CAP.MPSMIN in bytes: what Linux can use has pages of 4096 bytes.
	page = 4096
	// maxRatio is the most blocks that SBC lets a physical block have.
	maxRatio = 1 << 15
)

// description is all that is known of a namespace.
type description struct {
	identity
	ctrl   idController
	ns     idNamespace
	queue  queue
	size   int64 // of the block device, in bytes
	device string
	// warnings are the controller's critical warnings; healthErr is why they are not known.
	warnings  uint8
	healthErr error
	// identityErr is what is wrong with the list of identifiers.
	identityErr error
}

// queue is what the kernel says of the block device's queue in sysfs.
type queue struct {
	maxTransfer uint64 // the longest command that the kernel makes, in bytes; 0: not told
	flushes     bool   // the kernel flushes the write cache
}

// info turns what the controller and the kernel say into what the host wants to know.
func (d *description) info(readOnly bool) (backstore.Info, error) {
	bs, err := d.blockSize()
	if err != nil {
		return backstore.Info{}, err
	}
	blocks := d.ns.blocks()
	hi, bytes := bits.Mul64(blocks, uint64(bs))
	switch {
	case blocks == 0:
		return backstore.Info{}, fmt.Errorf("the namespace has no blocks: is it attached to this controller?")
	case hi != 0 || bytes > math.MaxInt64:
		return backstore.Info{}, fmt.Errorf("the controller says that it has %d blocks of %d bytes: more than can be", blocks, bs)
	case bytes != uint64(d.size):
		return backstore.Info{}, fmt.Errorf("the controller says that it has %d bytes, the kernel says %d: "+
			"nvme ns-rescan makes the kernel look again", bytes, d.size)
	}
	return backstore.Info{
		BlockSize:         bs,
		PhysicalBlockSize: bs * d.physical(),
		Blocks:            blocks,
		MaxTransfer:       d.maxTransfer(bs),
		OptimalTransfer:   bs * d.optimal(),
		ReadOnly:          readOnly || d.readOnly(),
		WriteCache:        d.ctrl.volatileCache(),
		FUA:               true,
		Concurrency:       descriptor.PoolSize,
		Serial:            d.identity.String(),
		Notice:            d.notice(),
	}, nil
}

// blockSize refuses the formats that cannot be served.
func (d *description) blockSize() (uint32, error) {
	f := d.ns.format(d.ns.formatIndex())
	if f.shift != 9 && f.shift != 12 {
		return 0, fmt.Errorf("its blocks have 2^%d bytes; 512 and 4096 can be served%s", f.shift, d.reformat(9, 12))
	}
	if f.metadata != 0 {
		return 0, fmt.Errorf("its blocks have %d bytes of metadata, which are not served%s", f.metadata, d.reformat(f.shift, 9, 12))
	}
	return 1 << f.shift, nil
}

// reformat says how to get a format that can be served, of those with one of the shifts: the first that there is, best first.
func (d *description) reformat(shifts ...uint8) string {
	for _, shift := range shifts {
		best := -1
		for i := range d.ns.formats() {
			f := d.ns.format(i)
			if f.shift == shift && f.metadata == 0 && (best < 0 || f.relative < d.ns.format(best).relative) {
				best = i
			}
		}
		if best >= 0 {
			return fmt.Sprintf("; nvme format %s --lbaf=%d gives it blocks of %d bytes and destroys all that is on it", d.device, best, 1<<shift)
		}
	}
	return ", and the controller has no format that can be"
}

// physical is the number of blocks of a physical block: what the controller prefers to write at once, but no more than it
// writes whole or not at all across a power failure, which file systems expect of a physical block.
func (d *description) physical() uint32 {
	if !d.ns.hasPerformance() {
		return 1
	}
	unit := max(d.ns.granularity(), d.ns.alignment())
	if bits.OnesCount32(unit) != 1 {
		return 1
	}
	atomic := uint32(d.ctrl.awupf()) + 1
	if d.ns.hasAtomics() && d.ns.nawupf() != 0 {
		atomic = uint32(d.ns.nawupf()) + 1
	}
	return min(unit, 1<<(bits.Len32(atomic)-1), maxRatio)
}

// optimal is the length of a transfer that suits the controller, in blocks; 0: not known.
func (d *description) optimal() uint32 {
	if d.ns.hasPerformance() {
		return d.ns.optimalWrite()
	}
	return uint32(d.ns.boundary())
}

// maxTransfer is the longest command in bytes, a multiple of bs, that the controller takes and the kernel does not split.
func (d *description) maxTransfer(bs uint32) uint32 {
	most := d.queue.maxTransfer
	if m := d.ctrl.mdts(); m != 0 && m < 32 {
		if limit := uint64(page) << m; most == 0 || limit < most {
			most = limit
		}
	}
	return uint32(min(most, math.MaxUint32) / uint64(bs) * uint64(bs))
}

// readOnly tells that no write can succeed.
func (d *description) readOnly() bool {
	return d.ns.writeProtected() || d.warnings&warnReadOnly != 0
}

// notice is what an operator would not expect, in one line.
func (d *description) notice() string {
	var facts []string
	if d.ns.writeProtected() {
		facts = append(facts, "read-only: the namespace is write protected")
	}
	for _, w := range []struct {
		bit  uint8
		fact string
	}{
		{warnReadOnly, "read-only: the controller has put all its media into read-only mode"},
		{warnReliability, "the controller's reliability is degraded by errors of its media or of itself"},
		{warnSpare, "the controller's spare blocks run out"},
		{warnBackup, "the backup of the controller's volatile memory has failed"},
		{warnPersistent, "the controller's persistent memory region is not reliable or read-only"},
		{warnTemperature, "the controller's temperature is beyond its threshold"},
	} {
		if d.warnings&w.bit != 0 {
			facts = append(facts, w.fact)
		}
	}
	if d.identityErr != nil {
		facts = append(facts, fmt.Sprintf("the controller's list of identifiers is broken: %v", d.identityErr))
	}
	if d.healthErr != nil {
		facts = append(facts, fmt.Sprintf("the controller's health is not known: %v", d.healthErr))
	}
	if d.ctrl.volatileCache() && !d.queue.flushes {
		facts = append(facts, "neither flush nor FUA reach the controller's write cache, because the device's queue/write_cache in sysfs is \"write through\"")
	}
	return strings.Join(facts, "; ")
}
