package ib

import (
	"encoding/binary"
	"fmt"
)

// Sizes of management datagrams (IBTA 13.4).
const (
	// MADSize is the length of every MAD.
	MADSize = 256
	// MADHeaderSize is the length of the common header.
	MADHeaderSize = 24
	// MADBaseVersion is the only base version.
	MADBaseVersion = 1
)

// Class is a management class (IBTA 13.4).
type Class uint8

// The classes.
const (
	ClassSubnLID    Class = 0x01
	ClassSubnAdm    Class = 0x03
	ClassPerf       Class = 0x04
	ClassBoard      Class = 0x05
	ClassDeviceMgmt Class = 0x06
	ClassComm       Class = 0x07
	ClassSNMP       Class = 0x08
	ClassSubnDR     Class = 0x81
)

// Method is what a MAD asks for. Its top bit marks responses (IBTA 13.4).
type Method uint8

// The common methods.
const (
	MethodGet         Method = 0x01
	MethodSet         Method = 0x02
	MethodSend        Method = 0x03
	MethodTrap        Method = 0x05
	MethodReport      Method = 0x06
	MethodTrapRepress Method = 0x07
	MethodGetResp     Method = 0x81
	MethodReportResp  Method = 0x86
)

// IsResponse tells whether the method is that of a response.
func (m Method) IsResponse() bool { return m&0x80 != 0 }

// Status is the status of a MAD; the low 5 bits are common to all classes (IBTA 13.4).
type Status uint16

// The common statuses.
const (
	StatusOK            Status = 0
	StatusBusy          Status = 1
	StatusRedirect      Status = 2
	StatusBadVersion    Status = 1 << 2
	StatusBadMethod     Status = 2 << 2
	StatusBadMethodAttr Status = 3 << 2
	StatusBadAttrValue  Status = 7 << 2
)

// AttrClassPortInfo is the attribute that every class but the subnet classes has (IBTA 13.4).
const AttrClassPortInfo uint16 = 0x0001

// MAD is a view of a management datagram: the common header, and all that follows.
type MAD []byte

// ParseMAD checks that b holds at least the common header. Version, class and the 256 bytes of a
// whole MAD are the caller's to check. Errors wrap ErrShort.
func ParseMAD(b []byte) (MAD, error) {
	if len(b) < MADHeaderSize {
		return nil, fmt.Errorf("MAD of %d bytes: %w, its header has %d", len(b), ErrShort, MADHeaderSize)
	}
	return MAD(b), nil
}

// BaseVersion is 1.
func (m MAD) BaseVersion() uint8 { return m[0] }

// Class is the management class.
func (m MAD) Class() Class { return Class(m[1]) }

// ClassVersion is the version of the class.
func (m MAD) ClassVersion() uint8 { return m[2] }

// Method is the method.
func (m MAD) Method() Method { return Method(m[3]) }

// Status is the status of a response.
func (m MAD) Status() Status { return Status(binary.BigEndian.Uint16(m[4:])) }

// TID is the transaction id, which a response copies.
func (m MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// AttrID is the attribute.
func (m MAD) AttrID() uint16 { return binary.BigEndian.Uint16(m[16:]) }

// AttrMod is the attribute modifier.
func (m MAD) AttrMod() uint32 { return binary.BigEndian.Uint32(m[20:]) }

// Data is what follows the common header, a part of m.
func (m MAD) Data() []byte { return m[MADHeaderSize:] }

// Header reads the common header.
func (m MAD) Header() MADHeader {
	return MADHeader{m.BaseVersion(), m.Class(), m.ClassVersion(), m.Method(), m.Status(), m.TID(), m.AttrID(), m.AttrMod()}
}

// SetMethod changes the method.
func (m MAD) SetMethod(v Method) { m[3] = byte(v) }

// SetStatus changes the status.
func (m MAD) SetStatus(v Status) { binary.BigEndian.PutUint16(m[4:], uint16(v)) }

// MADHeader is the common header as values, for building. The class specific and reserved fields are zero.
type MADHeader struct {
	BaseVersion  uint8
	Class        Class
	ClassVersion uint8
	Method       Method
	Status       Status
	TID          uint64
	AttrID       uint16
	AttrMod      uint32
}

// Append appends the header's 24 bytes to dst.
func (h MADHeader) Append(dst []byte) []byte {
	dst = append(dst, h.BaseVersion, byte(h.Class), h.ClassVersion, byte(h.Method))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Status))
	dst = append(dst, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, h.TID)
	dst = binary.BigEndian.AppendUint16(dst, h.AttrID)
	dst = append(dst, 0, 0)
	return binary.BigEndian.AppendUint32(dst, h.AttrMod)
}
