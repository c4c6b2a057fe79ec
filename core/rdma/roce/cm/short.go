package cm

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
)

// RTU is a view of ready-to-use (IBTA 12.6.9): the 232 bytes after the MAD header.
type RTU []byte

// LocalCommID is the sender's communication id.
func (r RTU) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id.
func (r RTU) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// Private is the private data, 224 bytes.
func (r RTU) Private() []byte { return r[8 : 8+RTUPrivateSize] }

// AppendRTU appends a whole ready-to-use MAD to dst.
func AppendRTU(dst []byte, tid uint64, local, remote uint32) []byte {
	all, _ := beginIDs(dst, AttrRTU, tid, local, remote)
	return all
}

// MRA is a view of a message receipt acknowledgement (IBTA 12.6.6): "I have it, wait for me".
type MRA []byte

// LocalCommID is the sender's communication id.
func (r MRA) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id.
func (r MRA) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// Received is the message that is acknowledged.
func (r MRA) Received() Refused { return Refused(r[8] >> 6) }

// ServiceTimeout is the code of the time that the sender needs, on top of the response timeout.
func (r MRA) ServiceTimeout() uint8 { return r[9] >> 3 }

// Private is the private data, 222 bytes.
func (r MRA) Private() []byte { return r[10 : 10+MRAPrivateSize] }

// AppendMRA appends a whole receipt acknowledgement MAD to dst.
func AppendMRA(dst []byte, tid uint64, local, remote uint32, about Refused, serviceTimeout uint8) []byte {
	all, b := beginIDs(dst, AttrMRA, tid, local, remote)
	b[8] = uint8(about) << 6
	b[9] = serviceTimeout << 3
	return all
}

// DREQ is a view of a disconnect request (IBTA 12.6.10).
type DREQ []byte

// LocalCommID is the sender's communication id.
func (r DREQ) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id.
func (r DREQ) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// RemoteQPN is the receiver's queue pair.
func (r DREQ) RemoteQPN() ib.QPN { return ib.QPN(get24(r[8:])) }

// Private is the private data, 220 bytes.
func (r DREQ) Private() []byte { return r[12 : 12+DREQPrivateSize] }

// AppendDREQ appends a whole disconnect request MAD to dst.
func AppendDREQ(dst []byte, tid uint64, local, remote uint32, remoteQPN ib.QPN) []byte {
	all, b := beginIDs(dst, AttrDREQ, tid, local, remote)
	put24(b[8:], uint32(remoteQPN), 0)
	return all
}

// DREP is a view of a disconnect reply (IBTA 12.6.11).
type DREP []byte

// LocalCommID is the sender's communication id.
func (r DREP) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id.
func (r DREP) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// Private is the private data, 224 bytes.
func (r DREP) Private() []byte { return r[8 : 8+DREPPrivateSize] }

// AppendDREP appends a whole disconnect reply MAD to dst.
func AppendDREP(dst []byte, tid uint64, local, remote uint32) []byte {
	all, _ := beginIDs(dst, AttrDREP, tid, local, remote)
	return all
}

func beginIDs(dst []byte, a Attr, tid uint64, local, remote uint32) (all, body []byte) {
	all, body = begin(dst, a, tid)
	binary.BigEndian.PutUint32(body, local)
	binary.BigEndian.PutUint32(body[4:], remote)
	return all, body
}
