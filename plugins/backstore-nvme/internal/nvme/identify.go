package nvme

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The data structures of NVM Express Base Specification 1.4, clauses 5.14.1.2 and 5.15.2, with the fields that 2.0 and 2.1 added
// to them. All numbers are little-endian.

// identifySize is the length of what every Identify command returns, in bytes (5.15.1).
const identifySize = 4096

// idController is the Identify Controller data structure, CNS 01h (5.15.2.2).
type idController []byte

const (
	offSN    = 4   // serial number, 20 characters
	offMDTS  = 77  // the longest transfer is 2^MDTS pages of CAP.MPSMIN; 0: no limit
	offVWC   = 525 // bit 0: there is a volatile write cache
	offAWUPF = 528 // blocks that are written whole or not at all across a power failure, less 1
)

func parseController(b []byte) (idController, error) {
	if len(b) != identifySize {
		return nil, fmt.Errorf("the controller's description has %d bytes, want %d", len(b), identifySize)
	}
	return b, nil
}

func (c idController) serial() string      { return text(c[offSN : offSN+20]) }
func (c idController) mdts() uint8         { return c[offMDTS] }
func (c idController) volatileCache() bool { return c[offVWC]&1 != 0 }
func (c idController) awupf() uint16       { return le16(c, offAWUPF) }

// text is a field of ASCII padded with spaces; what is no printable character becomes "?".
func text(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.TrimRight(string(b), " \x00"))
}

// idNamespace is the Identify Namespace data structure of the NVM command set, CNS 00h (5.15.2.1).
type idNamespace []byte

const (
	offNSZE    = 0   // size in blocks
	offNSFEAT  = 24  // features
	offNLBAF   = 25  // number of formats, less 1
	offFLBAS   = 26  // the format in use: its index in bits 3:0, and since 2.0 in bits 6:5 above those
	offNAWUPF  = 36  // as AWUPF, for this namespace, if featAtomics
	offNOIOB   = 46  // distance of the boundaries that I/O should not cross, in blocks; 0: not told
	offNPWG    = 64  // preferred write granularity in blocks, less 1, if featPerformance
	offNPWA    = 66  // its alignment, the same
	offNOWS    = 72  // optimal write size, the same
	offNSATTR  = 99  // bit 0: write protected now
	offNGUID   = 104 // 16 bytes, big-endian
	offEUI64   = 120 // 8 bytes, big-endian
	offFormats = 128 // 4 bytes each

	featAtomics     = 0x02
	featPerformance = 0x30 // one bit until 2.0, two since 2.1; in each state but 0 the three fields above are valid

	maxFormats = 64 // 16 before 2.0
)

func parseNamespace(b []byte) (idNamespace, error) {
	if len(b) != identifySize {
		return nil, fmt.Errorf("the namespace's description has %d bytes, want %d", len(b), identifySize)
	}
	n := idNamespace(b)
	switch {
	case n.formats() > maxFormats:
		return nil, fmt.Errorf("the controller says that there are %d formats, %d can be", n.formats(), maxFormats)
	case n.formatIndex() >= n.formats():
		return nil, fmt.Errorf("the namespace has format %d, of formats 0 to %d", n.formatIndex(), n.formats()-1)
	}
	return n, nil
}

func (n idNamespace) blocks() uint64       { return binary.LittleEndian.Uint64(n[offNSZE:]) }
func (n idNamespace) formats() int         { return int(n[offNLBAF]) + 1 }
func (n idNamespace) writeProtected() bool { return n[offNSATTR]&1 != 0 }
func (n idNamespace) boundary() uint16     { return le16(n, offNOIOB) }
func (n idNamespace) hasAtomics() bool     { return n[offNSFEAT]&featAtomics != 0 }
func (n idNamespace) nawupf() uint16       { return le16(n, offNAWUPF) }
func (n idNamespace) hasPerformance() bool { return n[offNSFEAT]&featPerformance != 0 }
func (n idNamespace) granularity() uint32  { return uint32(le16(n, offNPWG)) + 1 }
func (n idNamespace) alignment() uint32    { return uint32(le16(n, offNPWA)) + 1 }
func (n idNamespace) optimalWrite() uint32 { return uint32(le16(n, offNOWS)) + 1 }

// formatIndex is the index of the format in use. The upper bits count only where there are more than 16 formats.
func (n idNamespace) formatIndex() int {
	i := int(n[offFLBAS] & 0x0f)
	if n.formats() > 16 {
		i |= int(n[offFLBAS]&0x60) >> 1
	}
	return i
}

// format is an LBA Format data structure.
type format struct {
	metadata uint16 // bytes of metadata a block
	shift    uint8  // a block has 1<<shift bytes; 0: the format cannot be used
	relative uint8  // 0 is the best performance, 3 the worst
}

// format returns the format of an index below formats.
func (n idNamespace) format(i int) format {
	f := n[offFormats+4*i:]
	return format{metadata: le16(f, 0), shift: f[2], relative: f[3] & 3}
}

func le16(b []byte, off int) uint16 { return binary.LittleEndian.Uint16(b[off:]) }

// healthSize is the length of the SMART / Health Information log page, 02h (5.14.1.2), in bytes.
const healthSize = 512

// The bits of its first byte, Critical Warning.
const (
	warnSpare       = 1 << 0
	warnTemperature = 1 << 1
	warnReliability = 1 << 2
	warnReadOnly    = 1 << 3
	warnBackup      = 1 << 4
	warnPersistent  = 1 << 5
)
