//go:build verbs

package verbs

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// umadHeader is the length of the header that stands before each datagram on a descriptor of ib_umad (struct ib_user_mad, with the
// P_Key index).
const umadHeader = 64

// umadAddress is where the address begins in it (struct ib_user_mad's addr).
const umadAddress = 20

// umadMAD is a header and its datagram, as the kernel reads and writes it. Numbers of the header are the host's, those of the address
// the network's but for the P_Key index.
type umadMAD []byte

// parseUMAD checks the length, which is all that can be wrong.
func parseUMAD(b []byte) (umadMAD, bool) { return b, len(b) >= umadHeader }

// status is not 0 for a request of ours that comes back because nobody has answered it.
func (m umadMAD) status() uint32 { return binary.NativeEndian.Uint32(m[4:]) }

// mad is the datagram itself, of any length.
func (m umadMAD) mad() []byte { return m[umadHeader:] }

// from is the address of the sender.
func (m umadMAD) from() rdma.MADAddr {
	a := rdma.MADAddr{QPN: ib.QPN(binary.BigEndian.Uint32(m[20:])) & ib.QPNMask, LID: ib.LID(binary.BigEndian.Uint16(m[28:])),
		SL: m[30], PathBits: m[31], HasGRH: m[32] != 0, PKeyIndex: binary.NativeEndian.Uint16(m[56:])}
	if a.HasGRH {
		a.GRH = rdma.MADRoute{GID: ib.GID(m[36:52]), GIDIndex: m[33], HopLimit: m[34], TrafficClass: m[35],
			FlowLabel: binary.BigEndian.Uint32(m[52:]) & flowLabelMask}
	}
	return a
}

const flowLabelMask = 0xF_FFFF

// umadReachable tells whether an address has no more bits than its fields on the wire, and somewhere to go.
func umadReachable(to rdma.MADAddr) bool {
	return to.QPN <= ib.QPNMask && to.SL < 16 && to.PathBits < 128 && (to.HasGRH || to.LID != 0) && to.GRH.FlowLabel <= flowLabelMask
}

// appendUMAD appends a datagram that goes out through an agent. The kernel sends a request again each wait milliseconds until it is
// answered, retries times; 0 and 0 is for what has no answer.
func appendUMAD(dst []byte, agent, wait, retries uint32, to rdma.MADAddr, mad []byte) []byte {
	m := len(dst)
	dst = append(dst, make([]byte, umadHeader)...)
	h := dst[m:]
	binary.NativeEndian.PutUint32(h[0:], agent)
	binary.NativeEndian.PutUint32(h[8:], wait)
	binary.NativeEndian.PutUint32(h[12:], retries)
	binary.BigEndian.PutUint32(h[20:], uint32(to.QPN))
	binary.BigEndian.PutUint32(h[24:], ib.QKeyGSI)
	binary.BigEndian.PutUint16(h[28:], uint16(to.LID))
	h[30], h[31] = to.SL, to.PathBits
	if to.HasGRH {
		h[32], h[33], h[34], h[35] = 1, to.GRH.GIDIndex, to.GRH.HopLimit, to.GRH.TrafficClass
		copy(h[36:52], to.GRH.GID[:])
		binary.BigEndian.PutUint32(h[52:], to.GRH.FlowLabel)
	}
	binary.NativeEndian.PutUint16(h[56:], to.PKeyIndex)
	return append(dst, mad...)
}
