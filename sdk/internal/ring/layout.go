package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Version is the layout's.
const Version = 1

// MaxEntries is the longest ring.
const MaxEntries = 4096

// Sizes of the entries, in bytes.
const (
	SQESize = 64
	CQESize = 32
)

// The words of the regions' heads. Each word that is written after creation has a cache line of its own, 128 bytes apart.
const (
	headSize = 4096

	offMagic      = 0x00 // u64
	offVersion    = 0x08 // u32
	offEntries    = 0x0c // u32
	offGeneration = 0x10 // u32
	offSQESize    = 0x14 // u32
	offCQESize    = 0x18 // u32

	offTail      = 0x080 // u32: requests published (host), completions published (plugin)
	offTaken     = 0x100 // u32: plugin's region only, requests taken
	offWake      = 0x180 // u32: even while awake, odd while asleep
	offHeartbeat = 0x200 // u64: plugin's region only
)

// Magic numbers, "SRPTRNGH" and "SRPTRNGP" as bytes.
const (
	magicHost   = 0x48474e5254505253
	magicPlugin = 0x50474e5254505253
)

// Offsets in a submission entry.
const (
	sqeTag        = 0  // u64
	sqeGeneration = 8  // u32
	sqeOp         = 12 // u8
	sqeFlags      = 13 // u8
	sqeOffset     = 16 // u64
	sqeArena      = 24 // u64
	sqeLength     = 32 // u32
	sqeExtent     = 40 // u64
)

// Offsets in a completion entry.
const (
	cqeTag        = 0  // u64
	cqeGeneration = 8  // u32
	cqeCode       = 12 // u16
	cqeBytes      = 16 // u32
	cqeAt         = 20 // u32
)

// ErrLayout says that a region is not a ring of this version.
var ErrLayout = errors.New("ring: not a ring of this version")

// HostSize is the length of the host's region for a number of entries.
func HostSize(entries uint32) int { return headSize + int(entries)*SQESize }

// PluginSize is the length of the plugin's region for a number of entries, in whole pages.
func PluginSize(entries uint32) int {
	n := headSize + int(entries)*CQESize
	return (n + 4095) &^ 4095
}

// CheckEntries returns an error for a number of entries that no ring can have.
func CheckEntries(entries uint32) error {
	if entries == 0 || entries > MaxEntries || bits.OnesCount32(entries) != 1 {
		return fmt.Errorf("ring: %d entries; a power of two from 1 to %d is needed", entries, MaxEntries)
	}
	return nil
}

// Regions are the memory of one ring.
type Regions struct{ Host, Plugin []byte }

// Heap makes regions in this process's heap, for tests: the race detector sees nothing in a mapping.
func Heap(entries uint32) Regions {
	return Regions{Host: alignedBytes(HostSize(entries)), Plugin: alignedBytes(PluginSize(entries))}
}

func (r Regions) check(entries uint32) error {
	if err := CheckEntries(entries); err != nil {
		return err
	}
	if len(r.Host) < HostSize(entries) || len(r.Plugin) < PluginSize(entries) {
		return fmt.Errorf("%w: regions of %d and %d bytes are too short for %d entries",
			ErrLayout, len(r.Host), len(r.Plugin), entries)
	}
	return nil
}

func (r Regions) format(entries, generation uint32) {
	for _, region := range []struct {
		b     []byte
		magic uint64
	}{{r.Host, magicHost}, {r.Plugin, magicPlugin}} {
		b := region.b
		clear(b)
		binary.LittleEndian.PutUint64(b[offMagic:], region.magic)
		binary.LittleEndian.PutUint32(b[offVersion:], Version)
		binary.LittleEndian.PutUint32(b[offEntries:], entries)
		binary.LittleEndian.PutUint32(b[offGeneration:], generation)
		binary.LittleEndian.PutUint32(b[offSQESize:], SQESize)
		binary.LittleEndian.PutUint32(b[offCQESize:], CQESize)
	}
}

func checkHead(b []byte, magic uint64, entries, generation uint32) error {
	switch {
	case binary.LittleEndian.Uint64(b[offMagic:]) != magic:
		return fmt.Errorf("%w: no magic number", ErrLayout)
	case binary.LittleEndian.Uint32(b[offVersion:]) != Version:
		return fmt.Errorf("%w: version %d, this side speaks %d", ErrLayout, binary.LittleEndian.Uint32(b[offVersion:]), Version)
	case binary.LittleEndian.Uint32(b[offEntries:]) != entries:
		return fmt.Errorf("%w: another number of entries than announced", ErrLayout)
	case binary.LittleEndian.Uint32(b[offGeneration:]) != generation:
		return fmt.Errorf("%w: another generation than announced", ErrLayout)
	case binary.LittleEndian.Uint32(b[offSQESize:]) != SQESize, binary.LittleEndian.Uint32(b[offCQESize:]) != CQESize:
		return fmt.Errorf("%w: other entry sizes", ErrLayout)
	}
	return nil
}
