package scsi

import (
	"encoding/binary"
	"math"
)

// Mode page codes (SPC-4 7.5, SBC-3 6.5).
const (
	PageRecovery      uint8 = 0x01
	PageCaching       uint8 = 0x08
	PageControl       uint8 = 0x0A
	PageInformational uint8 = 0x1C
	PageAll           uint8 = 0x3F
	// SubpageAll asks for a page with all its subpages.
	SubpageAll uint8 = 0xFF
)

// PageControl values of MODE SENSE (SPC-4 6.11.1).
const (
	modeCurrent    = 0
	modeChangeable = 1
	modeDefault    = 2
	modeSaved      = 3
)

// ModeRequest is a MODE SENSE CDB taken apart.
type ModeRequest struct {
	// Page, Subpage and Control (current, changeable, default, saved: 0 to 3) say what is wanted.
	Page, Subpage, Control uint8
	// DBD leaves out the block descriptors; LLBAA accepts the long form of them.
	DBD, LLBAA bool
	// Ten is MODE SENSE(10), with the longer header.
	Ten bool
}

// ModeRequest reads a MODE SENSE(6) or (10) CDB.
func (c CDB) ModeRequest() ModeRequest {
	ten := c.Opcode() == OpModeSense10
	return ModeRequest{
		Page: c[2] & 0x3F, Subpage: c[3], Control: c[2] >> 6,
		DBD: c[1]&0x08 != 0, LLBAA: ten && c[1]&0x10 != 0, Ten: ten,
	}
}

// ModeParams are the values that mode pages tell. None is changeable, and none is saved.
type ModeParams struct {
	Capacity
	// WriteProtected refuses writes; FUA honours FUA and DPO in READ and WRITE.
	WriteProtected, FUA bool
	// WriteCache tells that writes may be volatile until SYNCHRONIZE CACHE.
	WriteCache bool
}

// Append appends the answer to r, or returns b and the sense that refuses it.
func (p *ModeParams) Append(b []byte, r ModeRequest) ([]byte, Sense) {
	if r.Control == modeSaved {
		return b, Sense{Code: SavingNotSupported}
	}
	start := len(b)
	out := p.appendHeader(b, r)
	pages := len(out)
	if r.Subpage == 0 || r.Subpage == SubpageAll {
		out = p.appendPages(out, r)
	}
	if len(out) == pages {
		return b, refusePage(r)
	}
	if r.Ten {
		binary.BigEndian.PutUint16(out[start:], uint16(len(out)-start-2))
	} else {
		out[start] = byte(len(out) - start - 1)
	}
	return out, Sense{}
}

// refusePage points at the page code, or at the subpage code if that is what nobody has.
func refusePage(r ModeRequest) Sense {
	switch r.Page {
	case PageRecovery, PageCaching, PageControl, PageInformational, PageAll:
		return InvalidField(3, NoBit)
	}
	return InvalidField(2, 5)
}

// appendHeader appends the mode parameter header and the block descriptor (SPC-4 7.5.4, 7.5.5).
func (p *ModeParams) appendHeader(b []byte, r ModeRequest) []byte {
	device := bit(p.WriteProtected, 0x80) | bit(p.FUA, 0x10)
	size := byte(8)
	if r.DBD {
		size = 0
	} else if r.LLBAA {
		size = 16
	}
	if r.Ten {
		b = append(b, 0, 0, 0, device, bit(size == 16, 0x01), 0, 0, size)
	} else {
		b = append(b, 0, 0, device, size)
	}
	switch size {
	case 8:
		b = binary.BigEndian.AppendUint32(b, uint32(min(p.Blocks, math.MaxUint32)))
		b = binary.BigEndian.AppendUint32(b, p.BlockSize&0xFFFFFF)
	case 16:
		b = binary.BigEndian.AppendUint64(b, p.Blocks)
		b = append(b, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, p.BlockSize)
	}
	return b
}

// appendPages appends the page asked for, or all in ascending order. A page's body is all zeros for changeable values.
func (p *ModeParams) appendPages(b []byte, r ModeRequest) []byte {
	all := r.Page == PageAll
	values := r.Control != modeChangeable
	if all || r.Page == PageRecovery {
		b = appendZeros(append(b, PageRecovery, 10), 10)
	}
	if all || r.Page == PageCaching {
		b = append(b, PageCaching, 18, bit(values && p.WriteCache, 0x04))
		b = appendZeros(b, 17)
	}
	if all || r.Page == PageControl {
		b = appendControlPage(b, values)
	}
	if all || r.Page == PageInformational {
		b = appendZeros(append(b, PageInformational, 10), 10)
	}
	return b
}

// appendControlPage appends page 0Ah: one task set for all nexuses, fixed format sense, no log
// parameter saved, unrestricted reordering of simple tasks, commands that another nexus ends get status TASK ABORTED (TAS),
// no bound on BUSY.
func appendControlPage(b []byte, values bool) []byte {
	if !values {
		return appendZeros(append(b, PageControl, 10), 10)
	}
	const gltsd, unrestricted, tas = 0x02, 0x10, 0x40
	return append(b, PageControl, 10, gltsd, unrestricted, 0, tas, 0, 0, 0xFF, 0xFF, 0, 0)
}
