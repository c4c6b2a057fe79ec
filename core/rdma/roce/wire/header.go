package wire

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Lengths of the headers in bytes (IBTA 9.2, 9.3).
const (
	BTHSize   = 12
	RETHSize  = 16
	AETHSize  = 4
	DETHSize  = 8
	ImmDtSize = 4
	ICRCSize  = 4
)

// UDPPort is the destination port of RoCEv2 (IBTA annex A17).
const UDPPort = 4791

// BTH is a view of the base transport header, 12 bytes (IBTA 9.2).
type BTH []byte

// Opcode is the operation.
func (h BTH) Opcode() Opcode { return Opcode(h[0]) }

// Solicited is the solicited event bit.
func (h BTH) Solicited() bool { return h[1]&0x80 != 0 }

// MigReq is the migration request bit. Peers set it or not; without path migration it means nothing.
func (h BTH) MigReq() bool { return h[1]&0x40 != 0 }

// Pad is how many bytes of padding follow the payload, 0..3.
func (h BTH) Pad() int { return int(h[1]>>4) & 3 }

// Version is the transport header version, 0.
func (h BTH) Version() int { return int(h[1] & 0x0F) }

// PKey is the partition key.
func (h BTH) PKey() ib.PKey { return ib.PKey(binary.BigEndian.Uint16(h[2:])) }

// FECN tells that the packet met congestion on its way.
func (h BTH) FECN() bool { return h[4]&0x80 != 0 }

// BECN tells that packets of the other direction met congestion; set in a congestion notification.
func (h BTH) BECN() bool { return h[4]&0x40 != 0 }

// DestQP is the destination queue pair.
func (h BTH) DestQP() ib.QPN { return ib.QPN(binary.BigEndian.Uint32(h[4:])) & ib.QPNMask }

// AckReq asks for an acknowledgement.
func (h BTH) AckReq() bool { return h[8]&0x80 != 0 }

// PSN is the packet sequence number.
func (h BTH) PSN() ib.PSN { return ib.PSN(binary.BigEndian.Uint32(h[8:])) & ib.PSNMask }

// SetAckReq sets or clears the acknowledgement request, as for a retransmission. The ICRC must be made anew.
func (h BTH) SetAckReq(on bool) {
	h[8] &^= 0x80
	if on {
		h[8] |= 0x80
	}
}

// Header is a BTH as values, for building. The transport version is 0, FECN and BECN are clear.
type Header struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	AckReq    bool
	// Pad is how many bytes of padding the payload needs, PadLen of its length.
	Pad    int
	PKey   ib.PKey
	DestQP ib.QPN
	PSN    ib.PSN
}

// Append appends the 12 bytes of the BTH to dst.
func (h Header) Append(dst []byte) []byte {
	flags := byte(h.Pad&3) << 4
	if h.Solicited {
		flags |= 0x80
	}
	if h.MigReq {
		flags |= 0x40
	}
	psn := uint32(h.PSN & ib.PSNMask)
	if h.AckReq {
		psn |= 1 << 31
	}
	dst = append(dst, byte(h.Opcode), flags)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.PKey))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.DestQP&ib.QPNMask))
	return binary.BigEndian.AppendUint32(dst, psn)
}

// RETH is a view of the RDMA extended transport header, 16 bytes (IBTA 9.3).
type RETH []byte

// VA is the remote address of the first byte.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h) }

// RKey is the key of the remote memory.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Length is the length of the whole message, padding excluded. Up to 2^32-1: check it against 2^31,
// the longest message (IBTA 9.7), and in 64 bits together with VA.
func (h RETH) Length() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// AppendRETH appends an RDMA header to dst.
func AppendRETH(dst []byte, va uint64, rkey, length uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, va)
	dst = binary.BigEndian.AppendUint32(dst, rkey)
	return binary.BigEndian.AppendUint32(dst, length)
}

// DETH is a view of the datagram extended transport header, 8 bytes (IBTA 9.3).
type DETH []byte

// QKey is the queue key; it must be that of the destination QP.
func (h DETH) QKey() uint32 { return binary.BigEndian.Uint32(h) }

// SrcQP is the sender's queue pair.
func (h DETH) SrcQP() ib.QPN { return ib.QPN(binary.BigEndian.Uint32(h[4:])) & ib.QPNMask }

// AppendDETH appends a datagram header to dst.
func AppendDETH(dst []byte, qkey uint32, src ib.QPN) []byte {
	dst = binary.BigEndian.AppendUint32(dst, qkey)
	return binary.BigEndian.AppendUint32(dst, uint32(src&ib.QPNMask))
}

// ImmDt is a view of 4 bytes before the payload: immediate data (IBTA 9.3), or the R_Key of a
// SEND with invalidate.
type ImmDt []byte

// Value is the number.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }

// AppendImmDt appends immediate data, or an R_Key to invalidate, to dst.
func AppendImmDt(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// PadLen is how many bytes of padding a payload of n bytes needs: the payload travels in whole
// words (IBTA 9.2).
func PadLen(n int) int { return -n & 3 }

// AppendPad appends the zero padding of a payload of n bytes.
func AppendPad(dst []byte, n int) []byte {
	return append(dst, zeros[:PadLen(n)]...)
}

var zeros [3]byte
