package cm

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
)

// REQ is a view of a connection request (IBTA 12.6.5): the 232 bytes after the MAD header.
//
// StartingPSN, here and in REP, is the number that the message's *receiver* sends with first, which
// is the first its sender expects (IBTA 12.7, "Starting PSN"). The Linux ib_cm does the same:
// cm.c makes the value that it sends its rq_psn, and the value that it receives its sq_psn. With
// the opposite rule a login succeeds, and the first SEND of the peer looks like a wild PSN.
type REQ []byte

// LocalCommID is the sender's communication id.
func (r REQ) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// ServiceID is the service asked for.
func (r REQ) ServiceID() uint64 { return binary.BigEndian.Uint64(r[8:]) }

// CAGUID is the sender's adapter.
func (r REQ) CAGUID() ib.GUID { return ib.GUID(binary.BigEndian.Uint64(r[16:])) }

// QKey is the sender's Q_Key, 0 for connected services.
func (r REQ) QKey() uint32 { return binary.BigEndian.Uint32(r[28:]) }

// LocalQPN is the sender's queue pair.
func (r REQ) LocalQPN() ib.QPN { return ib.QPN(get24(r[32:])) }

// ResponderResources is how many RDMA READs the sender can serve at a time.
func (r REQ) ResponderResources() uint8 { return r[35] }

// InitiatorDepth is how many RDMA READs the sender wants to have outstanding.
func (r REQ) InitiatorDepth() uint8 { return r[39] }

// RemoteResponseTimeout is the code of the time within which the receiver shall answer.
func (r REQ) RemoteResponseTimeout() uint8 { return r[43] >> 3 }

// TransportType is the service type, 0 for reliable connection.
func (r REQ) TransportType() uint8 { return r[43] >> 1 & 3 }

// FlowControl tells that the sender does end-to-end flow control.
func (r REQ) FlowControl() bool { return r[43]&1 != 0 }

// StartingPSN is the number that the receiver of the REQ sends with first.
func (r REQ) StartingPSN() ib.PSN { return ib.PSN(get24(r[44:])) }

// LocalResponseTimeout is the code of the time within which the sender answers.
func (r REQ) LocalResponseTimeout() uint8 { return r[47] >> 3 }

// RetryCount is how often the receiver's QP shall retry, 0..7.
func (r REQ) RetryCount() uint8 { return r[47] & 7 }

// PKey is the partition of the connection.
func (r REQ) PKey() ib.PKey { return ib.PKey(binary.BigEndian.Uint16(r[48:])) }

// PathMTU is the path MTU. There is no negotiation: the receiver uses it or rejects.
func (r REQ) PathMTU() ib.MTU { return ib.MTU(r[50] >> 4) }

// RNRRetryCount is how often the receiver's QP shall retry after RNR NAK, 7 for ever.
func (r REQ) RNRRetryCount() uint8 { return r[50] & 7 }

// MaxCMRetries is how often either side repeats a CM message, 0..15.
func (r REQ) MaxCMRetries() uint8 { return r[51] >> 4 }

// SRQ tells that the sender's QP takes its buffers from a shared receive queue.
func (r REQ) SRQ() bool { return r[51]&8 != 0 }

// ExtendedTransport is the extended service type, 0 unless TransportType is 3.
func (r REQ) ExtendedTransport() uint8 { return r[51] & 7 }

// LocalGID is the sender's address on the primary path.
func (r REQ) LocalGID() ib.GID { return ib.GID(r[56:72]) }

// RemoteGID is the receiver's address on the primary path.
func (r REQ) RemoteGID() ib.GID { return ib.GID(r[72:88]) }

// FlowLabel is the flow label of the primary path, 20 bits.
func (r REQ) FlowLabel() uint32 { return binary.BigEndian.Uint32(r[88:]) >> 12 }

// AckTimeout is the code of the sender's local ACK timeout on the primary path.
func (r REQ) AckTimeout() uint8 { return r[95] >> 3 }

// Private is the private data, 92 bytes.
func (r REQ) Private() []byte { return r[140 : 140+REQPrivateSize] }

// REQFields is a REQ as values, for building. The local and remote LIDs are permissive, as on
// Ethernet; the transport is RC; there is no alternate path.
type REQFields struct {
	LocalCommID           uint32
	ServiceID             uint64
	CAGUID                ib.GUID
	LocalQPN              ib.QPN
	ResponderResources    uint8
	InitiatorDepth        uint8
	RemoteResponseTimeout uint8
	FlowControl           bool
	StartingPSN           ib.PSN
	LocalResponseTimeout  uint8
	RetryCount            uint8
	PKey                  ib.PKey
	PathMTU               ib.MTU
	RNRRetryCount         uint8
	MaxCMRetries          uint8
	SRQ                   bool
	LocalGID, RemoteGID   ib.GID
	FlowLabel             uint32
	HopLimit              uint8
	AckTimeout            uint8
	Private               []byte
}

// Append appends the whole 256-byte MAD to dst. Its error wraps ErrPrivate.
func (f *REQFields) Append(dst []byte, tid uint64) ([]byte, error) {
	all, b := begin(dst, AttrREQ, tid)
	binary.BigEndian.PutUint32(b, f.LocalCommID)
	binary.BigEndian.PutUint64(b[8:], f.ServiceID)
	binary.BigEndian.PutUint64(b[16:], uint64(f.CAGUID))
	put24(b[32:], uint32(f.LocalQPN), f.ResponderResources)
	b[39] = f.InitiatorDepth
	b[43] = f.RemoteResponseTimeout<<3 | flag(f.FlowControl, 1)
	put24(b[44:], uint32(f.StartingPSN), f.LocalResponseTimeout<<3|f.RetryCount&7)
	binary.BigEndian.PutUint16(b[48:], uint16(f.PKey))
	b[50] = uint8(f.PathMTU)<<4 | f.RNRRetryCount&7
	b[51] = f.MaxCMRetries<<4 | flag(f.SRQ, 8)
	binary.BigEndian.PutUint16(b[52:], uint16(ib.LIDPermissive))
	binary.BigEndian.PutUint16(b[54:], uint16(ib.LIDPermissive))
	copy(b[56:], f.LocalGID[:])
	copy(b[72:], f.RemoteGID[:])
	binary.BigEndian.PutUint32(b[88:], f.FlowLabel<<12)
	b[93] = f.HopLimit
	b[95] = f.AckTimeout << 3
	return all, putPrivate(REQ(b).Private(), f.Private)
}

func flag(on bool, bit uint8) uint8 {
	if on {
		return bit
	}
	return 0
}
