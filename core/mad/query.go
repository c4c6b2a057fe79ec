package mad

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Query is a Get of one attribute.
type Query struct {
	Attr uint16
	Mod  uint32
}

// GetClassPortInfo asks what the agent can do.
func GetClassPortInfo() Query { return Query{Attr: AttrClassPortInfo} }

// GetIOUnitInfo asks which slots have controllers.
func GetIOUnitInfo() Query { return Query{Attr: AttrIOUnitInfo} }

// GetProfile asks for the controller in a slot, from 1.
func GetProfile(slot uint8) Query { return Query{Attr: AttrIOControllerProfile, Mod: uint32(slot)} }

// GetServices asks for the service entries first..last, from 0 and at most ServicesPerQuery, of the controller in a slot.
func GetServices(slot, first, last uint8) Query {
	return Query{Attr: AttrServiceEntries, Mod: uint32(slot)<<16 | uint32(last)<<8 | uint32(first)}
}

// String names what is asked.
func (q Query) String() string {
	switch q.Attr {
	case AttrClassPortInfo:
		return "Get ClassPortInfo"
	case AttrIOUnitInfo:
		return "Get IOUnitInfo"
	case AttrIOControllerProfile:
		return fmt.Sprintf("Get IOControllerProfile of slot %d", q.Mod)
	case AttrServiceEntries:
		return fmt.Sprintf("Get ServiceEntries %d to %d of slot %d", q.Mod&0xFF, q.Mod>>8&0xFF, q.Mod>>16)
	}
	return fmt.Sprintf("Get attribute %04x modifier %08x", q.Attr, q.Mod)
}

// Append appends the request, ib.MADSize bytes. tid becomes the lower half of the transaction id; the upper half is left
// to the port that sends it.
func (q Query) Append(dst []byte, tid uint32) []byte {
	h := ib.MADHeader{BaseVersion: ib.MADBaseVersion, Class: ib.ClassDeviceMgmt, ClassVersion: ClassVersion,
		Method: ib.MethodGet, TID: uint64(tid), AttrID: q.Attr, AttrMod: q.Mod}
	return append(h.Append(dst), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
}

// Parse returns the attribute data of the answer to the query sent with tid, a part of b. Errors wrap ErrMismatch if b
// is not that answer, which may still come; they are a *StatusError if the answer refuses the query.
func (q Query) Parse(b []byte, tid uint32) ([]byte, error) {
	if len(b) != ib.MADSize {
		return nil, q.mismatch("it has %d bytes", len(b))
	}
	m := ib.MAD(b)
	switch {
	case m.BaseVersion() != ib.MADBaseVersion || m.Class() != ib.ClassDeviceMgmt || m.Method() != ib.MethodGetResp:
		return nil, q.mismatch("it has base version %d, class %02x, method %02x", m.BaseVersion(), uint8(m.Class()), uint8(m.Method()))
	case uint32(m.TID()) != tid:
		return nil, q.mismatch("its transaction id ends in %08x, not %08x", uint32(m.TID()), tid)
	case m.AttrID() != q.Attr || m.AttrMod() != q.Mod:
		return nil, q.mismatch("it is about attribute %04x modifier %08x", m.AttrID(), m.AttrMod())
	case m.Status() != ib.StatusOK:
		return nil, &StatusError{Query: q, Status: m.Status()}
	case m.ClassVersion() != ClassVersion:
		return nil, q.mismatch("it has class version %d", m.ClassVersion())
	}
	return b[HeaderSize:], nil
}

func (q Query) mismatch(format string, args ...any) error {
	return fmt.Errorf("device management: %v: %w: %s", q, ErrMismatch, fmt.Sprintf(format, args...))
}
