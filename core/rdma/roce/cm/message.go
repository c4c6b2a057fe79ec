package cm

import (
	"encoding/binary"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Attr is the kind of a communication management message: the MAD's attribute (IBTA 16.7).
type Attr uint16

// The kinds. The machine answers those up to AttrDREP; SIDR and path migration are not supported.
const (
	AttrREQ     Attr = 0x0010
	AttrMRA     Attr = 0x0011
	AttrREJ     Attr = 0x0012
	AttrREP     Attr = 0x0013
	AttrRTU     Attr = 0x0014
	AttrDREQ    Attr = 0x0015
	AttrDREP    Attr = 0x0016
	AttrSIDRREQ Attr = 0x0017
	AttrSIDRREP Attr = 0x0018
	AttrLAP     Attr = 0x0019
	AttrAPR     Attr = 0x001A
)

// ClassVersion is the version of the communication management class.
const ClassVersion = 2

// String names the message.
func (a Attr) String() string {
	names := [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}
	if i := int(a) - int(AttrREQ); i >= 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("attribute %#04x", uint16(a))
}

// dataSize is what a MAD holds after its header. Every view has this length.
const dataSize = ib.MADSize - ib.MADHeaderSize

// Room for private data in each message, in bytes (IBTA 12.6).
const (
	REQPrivateSize  = 92
	MRAPrivateSize  = 222
	REJPrivateSize  = 148
	REPPrivateSize  = 196
	RTUPrivateSize  = 224
	DREQPrivateSize = 220
	DREPPrivateSize = 224
	// ARISize is the room for additional reject information.
	ARISize = 72
)

// Message is a view of a whole communication management MAD.
type Message struct{ ib.MAD }

// ParseMessage checks that b is a 256-byte MAD of the communication management class, version 2,
// method Send. Its errors wrap ErrMessage. Nothing is copied; messages of unknown kind pass.
func ParseMessage(b []byte) (Message, error) {
	if len(b) != ib.MADSize {
		return Message{}, fmt.Errorf("%w: %d bytes, a MAD has %d", ErrMessage, len(b), ib.MADSize)
	}
	m := ib.MAD(b)
	if m.BaseVersion() != ib.MADBaseVersion || m.Class() != ib.ClassComm || m.ClassVersion() != ClassVersion || m.Method() != ib.MethodSend {
		return Message{}, fmt.Errorf("%w: base version %d, class %#x, class version %d, method %#x", ErrMessage,
			m.BaseVersion(), uint8(m.Class()), m.ClassVersion(), uint8(m.Method()))
	}
	return Message{m}, nil
}

// Attr is the kind of message.
func (m Message) Attr() Attr { return Attr(m.AttrID()) }

// REQ views the message as a connection request. As all the views, it is meaningful only for that kind.
func (m Message) REQ() REQ { return REQ(m.Data()) }

// REP views the message as a reply.
func (m Message) REP() REP { return REP(m.Data()) }

// REJ views the message as a reject.
func (m Message) REJ() REJ { return REJ(m.Data()) }

// RTU views the message as ready-to-use.
func (m Message) RTU() RTU { return RTU(m.Data()) }

// MRA views the message as a receipt acknowledgement.
func (m Message) MRA() MRA { return MRA(m.Data()) }

// DREQ views the message as a disconnect request.
func (m Message) DREQ() DREQ { return DREQ(m.Data()) }

// DREP views the message as a disconnect reply.
func (m Message) DREP() DREP { return DREP(m.Data()) }

// ids reads the two communication ids, which every kind but REQ begins with: the sender's and the receiver's.
func (m Message) ids() (sender, receiver uint32) {
	d := m.Data()
	return binary.BigEndian.Uint32(d), binary.BigEndian.Uint32(d[4:])
}

// begin appends the MAD header and a zero body to dst, and returns dst and the body.
func begin(dst []byte, a Attr, tid uint64) (all, body []byte) {
	all = ib.MADHeader{BaseVersion: ib.MADBaseVersion, Class: ib.ClassComm, ClassVersion: ClassVersion,
		Method: ib.MethodSend, TID: tid, AttrID: uint16(a)}.Append(dst)
	var zero [dataSize]byte
	all = append(all, zero[:]...)
	return all, all[len(all)-dataSize:]
}

// put24 writes a 24-bit field and the byte after it.
func put24(b []byte, v uint32, low uint8) { binary.BigEndian.PutUint32(b, v<<8|uint32(low)) }

func get24(b []byte) uint32 { return binary.BigEndian.Uint32(b) >> 8 }

// putPrivate copies private data, or says that it does not fit.
func putPrivate(room, private []byte) error {
	if len(private) > len(room) {
		return fmt.Errorf("%w: %d bytes, there is room for %d", ErrPrivate, len(private), len(room))
	}
	copy(room, private)
	return nil
}

// Timeout is the time in nanoseconds that a 5-bit timeout code stands for: 4.096 us * 2^code.
func Timeout(code uint8) int64 { return 4096 << (code & 31) }

// TimeoutCode is the smallest code that stands for at least ns nanoseconds, 31 at most.
func TimeoutCode(ns int64) uint8 {
	code := uint8(0)
	for code < 31 && Timeout(code) < ns {
		code++
	}
	return code
}
