package sa

import (
	"encoding/binary"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

// PathRecordSize is the attribute's, in bytes.
const PathRecordSize = 64

// PathRecord is a view of the attribute of that name: a path from a source (S) to a destination (D).
type PathRecord []byte

// Where its fields begin.
const (
	offDGID       = 8
	offSGID       = 24
	offDLID       = 40
	offSLID       = 42
	offHopFlow    = 44 // 1 bit raw traffic, 3 reserved, 20 flow label, 8 hop limit
	offClass      = 48
	offReversible = 49 // 1 bit, and 7 the number of paths
	offPKey       = 50
	offSL         = 52 // 12 bits QoS class, 4 service level
	offMTU        = 54 // 2 bits selector, 6 MTU
)

// ParsePathRecord checks the length. Errors wrap mad.ErrShort.
func ParsePathRecord(data []byte) (PathRecord, error) {
	if len(data) < PathRecordSize {
		return nil, fmt.Errorf("PathRecord of %d bytes: %w, it has %d", len(data), mad.ErrShort, PathRecordSize)
	}
	return PathRecord(data[:PathRecordSize:PathRecordSize]), nil
}

// DGID is the destination's GID.
func (p PathRecord) DGID() ib.GID { return ib.GID(p[offDGID:]) }

// SGID is the source's GID.
func (p PathRecord) SGID() ib.GID { return ib.GID(p[offSGID:]) }

// DLID is where packets are sent to: the destination, or a router on the way.
func (p PathRecord) DLID() ib.LID { return ib.LID(binary.BigEndian.Uint16(p[offDLID:])) }

// SLID is the source's LID, path bits included.
func (p PathRecord) SLID() ib.LID { return ib.LID(binary.BigEndian.Uint16(p[offSLID:])) }

// FlowLabel goes into the global route header; 20 bits.
func (p PathRecord) FlowLabel() uint32 {
	return binary.BigEndian.Uint32(p[offHopFlow:]) >> 8 & 0xF_FFFF
}

// HopLimit goes into the global route header.
func (p PathRecord) HopLimit() uint8 { return p[offHopFlow+3] }

// Routed tells whether the path leaves the subnet, so that packets need a global route header: no router passes one on with
// a hop limit of 1 (IBTA vol 1, 8.3.6).
func (p PathRecord) Routed() bool { return p.HopLimit() > 1 }

// TrafficClass goes into the global route header.
func (p PathRecord) TrafficClass() uint8 { return p[offClass] }

// Reversible tells whether answers may take the same path.
func (p PathRecord) Reversible() bool { return p[offReversible]&0x80 != 0 }

// PKey is the partition in which the path is.
func (p PathRecord) PKey() ib.PKey { return ib.PKey(binary.BigEndian.Uint16(p[offPKey:])) }

// SL is the service level, 0 to 15.
func (p PathRecord) SL() uint8 { return p[offSL+1] & 15 }

// MTU is the longest that the path carries. It may be no valid code.
func (p PathRecord) MTU() ib.MTU { return ib.MTU(p[offMTU] & 0x3F) }
