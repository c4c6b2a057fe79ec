package cm

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
)

// serviceTCP is the upper part of the service ids of the RDMA/CM's TCP port space (IBTA annex A11).
const serviceTCP = 0x0106_0000

// ServiceID is the service id of an RDMA/CM port in the TCP port space, which ib_srp uses.
func ServiceID(port uint16) uint64 { return serviceTCP | uint64(port) }

// ServicePort is the port that a service id of the TCP port space stands for, and whether it is one.
func ServicePort(id uint64) (port uint16, ok bool) {
	return uint16(id), id&^0xFFFF == serviceTCP
}

// IPHeaderSize is the length of the IP header that RDMA/CM puts before the private data of a REQ.
const IPHeaderSize = 36

// IPPrivateSize is what IP addressing leaves of a REQ's private data.
const IPPrivateSize = REQPrivateSize - IPHeaderSize

// IPHeader says from which address to which address a request goes (IBTA annex A11). IPv4 addresses are mapped GIDs.
type IPHeader struct {
	Port     uint16 // of the sender
	Src, Dst ib.GID
}

// ParseIPHeader reads the header at the start of private data and returns what follows it. It is
// false if there is none: data of a request without IP addressing.
func ParseIPHeader(private []byte) (h IPHeader, rest []byte, ok bool) {
	if len(private) < IPHeaderSize || private[0] != 0 {
		return IPHeader{}, private, false
	}
	h.Port = binary.BigEndian.Uint16(private[2:])
	switch private[1] >> 4 {
	case 4:
		h.Src, h.Dst = ib.GIDFromIPv4([4]byte(private[16:])), ib.GIDFromIPv4([4]byte(private[32:]))
	case 6:
		h.Src, h.Dst = ib.GID(private[4:20]), ib.GID(private[20:36])
	default:
		return IPHeader{}, private, false
	}
	return h, private[IPHeaderSize:], true
}

// Append appends the header's 36 bytes to dst. Two IPv4-mapped addresses make an IPv4 header, in which
// the 12 bytes before each address are zero.
func (h IPHeader) Append(dst []byte) []byte {
	version, from := byte(0x60), 0
	if h.Src.Is4() && h.Dst.Is4() {
		version, from = 0x40, 12
	}
	dst = append(dst, 0, version)
	dst = binary.BigEndian.AppendUint16(dst, h.Port)
	var pad [12]byte
	dst = append(append(dst, pad[:from]...), h.Src[from:]...)
	return append(append(dst, pad[:from]...), h.Dst[from:]...)
}
