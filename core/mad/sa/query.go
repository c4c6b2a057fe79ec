package sa

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

const (
	// ClassVersion is the version of the class.
	ClassVersion = 2
	// AttrPathRecord is the attribute PathRecord.
	AttrPathRecord uint16 = 0x0035
	// HeaderSize is where a datagram's attribute data begins: after the common header, 12 bytes of RMPP, 8 of SM_Key, 2 of
	// attribute offset, 2 reserved and 8 of component mask.
	HeaderSize = 56
	// offMask is where the component mask is.
	offMask = 48
)

// Components of a PathRecord that a query may give. The others are the administrator's choice.
const (
	haveDGID       = 1 << 2
	haveSGID       = 1 << 3
	haveDLID       = 1 << 4
	haveReversible = 1 << 11
	haveNumbPath   = 1 << 12
)

// PathQuery asks for one path, on which answers may come back, from a port to another one. The destination is told by its
// GID or its LID; the one that is zero is asked for.
type PathQuery struct {
	SGID, DGID ib.GID
	DLID       ib.LID
}

// String names what is asked.
func (q PathQuery) String() string { return "Get PathRecord to " + q.destination() }

func (q PathQuery) destination() string {
	if q.DGID.IsZero() {
		return fmt.Sprintf("LID %d", q.DLID)
	}
	return fmt.Sprintf("GID %v", q.DGID)
}

// Append appends the request, ib.MADSize bytes. tid becomes the lower half of the transaction id; the upper half is left
// to the port that sends it.
func (q PathQuery) Append(dst []byte, tid uint32) []byte {
	h := ib.MADHeader{BaseVersion: ib.MADBaseVersion, Class: ib.ClassSubnAdm, ClassVersion: ClassVersion,
		Method: ib.MethodGet, TID: uint64(tid), AttrID: AttrPathRecord}
	begin := len(dst)
	dst = append(h.Append(dst), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
	mask := uint64(haveSGID | haveReversible | haveNumbPath)
	r := PathRecord(dst[begin+HeaderSize:])
	copy(r[offSGID:], q.SGID[:])
	r[offReversible] = 0x80 | 1
	if !q.DGID.IsZero() {
		mask |= haveDGID
		copy(r[offDGID:], q.DGID[:])
	}
	if q.DLID != 0 {
		mask |= haveDLID
		binary.BigEndian.PutUint16(r[offDLID:], uint16(q.DLID))
	}
	binary.BigEndian.PutUint64(dst[begin+offMask:], mask)
	return dst
}

// Parse returns the attribute data of the answer to the query sent with tid, a part of b. Errors wrap mad.ErrMismatch if b
// is not that answer, which may still come; they are a *StatusError if the answer refuses the query.
func (q PathQuery) Parse(b []byte, tid uint32) ([]byte, error) {
	// Administrators may leave out what follows the attribute (opensm does, where nobody fills it up).
	if len(b) < HeaderSize || len(b) > ib.MADSize {
		return nil, q.mismatch("it has %d bytes", len(b))
	}
	m := ib.MAD(b)
	switch {
	case m.BaseVersion() != ib.MADBaseVersion || m.Class() != ib.ClassSubnAdm || m.Method() != ib.MethodGetResp:
		return nil, q.mismatch("it has base version %d, class %02x, method %02x", m.BaseVersion(), uint8(m.Class()), uint8(m.Method()))
	case uint32(m.TID()) != tid:
		return nil, q.mismatch("its transaction id ends in %08x, not %08x", uint32(m.TID()), tid)
	case m.AttrID() != AttrPathRecord:
		return nil, q.mismatch("it is about attribute %04x", m.AttrID())
	case m.Status() != ib.StatusOK:
		return nil, &StatusError{Query: q, Status: m.Status()}
	case m.ClassVersion() != ClassVersion:
		return nil, q.mismatch("it has class version %d", m.ClassVersion())
	}
	return b[HeaderSize:], nil
}

func (q PathQuery) mismatch(format string, args ...any) error {
	return fmt.Errorf("subnet administration: %v: %w: %s", q, mad.ErrMismatch, fmt.Sprintf(format, args...))
}

// ErrPath: the administrator has answered with a path that was not asked for, or that there cannot be.
var ErrPath = errors.New("no such path can be")

// Check tells whether a record is an answer to the query that can be used. Errors wrap ErrPath.
func (q PathQuery) Check(r PathRecord) error {
	dgid, sgid := r.DGID(), r.SGID()
	switch {
	case sgid != q.SGID:
		return q.wrong("it begins at GID %v, not at %v", sgid, q.SGID)
	case !q.DGID.IsZero() && dgid != q.DGID:
		return q.wrong("it ends at GID %v", dgid)
	case q.DLID != 0 && r.DLID() != q.DLID:
		return q.wrong("it ends at LID %d", r.DLID())
	case dgid.IsZero() || dgid[0] == 0xFF:
		return q.wrong("it ends at GID %v, which is no port's", dgid)
	case !r.DLID().IsUnicast() || !r.SLID().IsUnicast():
		return q.wrong("it goes from LID %d to LID %d", r.SLID(), r.DLID())
	case r.PKey()&0x7FFF == 0:
		return q.wrong("it is in partition %04x, which there is not", uint16(r.PKey()))
	case !r.Reversible():
		return q.wrong("answers cannot come back on it")
	}
	return nil
}

func (q PathQuery) wrong(format string, args ...any) error {
	return fmt.Errorf("subnet administration: %v: the answer is a path and %w: %s", q, ErrPath, fmt.Sprintf(format, args...))
}
