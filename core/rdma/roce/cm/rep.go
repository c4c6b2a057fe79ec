package cm

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/ib"
)

// REP is a view of a reply (IBTA 12.6.8): the 232 bytes after the MAD header.
type REP []byte

// LocalCommID is the sender's communication id.
func (r REP) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id, from the REQ.
func (r REP) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// LocalQPN is the sender's queue pair.
func (r REP) LocalQPN() ib.QPN { return ib.QPN(get24(r[12:])) }

// StartingPSN is the number that the receiver of the REP sends with first; see REQ.
func (r REP) StartingPSN() ib.PSN { return ib.PSN(get24(r[20:])) }

// ResponderResources is how many RDMA READs the sender serves at a time.
func (r REP) ResponderResources() uint8 { return r[24] }

// InitiatorDepth is how many RDMA READs the sender will have outstanding. A Linux peer sizes its
// responder by it: 0 makes it refuse every READ.
func (r REP) InitiatorDepth() uint8 { return r[25] }

// TargetAckDelay is the code of the longest time that the sender takes to acknowledge.
func (r REP) TargetAckDelay() uint8 { return r[26] >> 3 }

// FlowControl tells that the sender does end-to-end flow control.
func (r REP) FlowControl() bool { return r[26]&1 != 0 }

// RNRRetryCount is how often the receiver's QP shall retry after RNR NAK, 7 for ever.
func (r REP) RNRRetryCount() uint8 { return r[27] >> 5 }

// SRQ tells that the sender's QP takes its buffers from a shared receive queue.
func (r REP) SRQ() bool { return r[27]&0x10 != 0 }

// CAGUID is the sender's adapter.
func (r REP) CAGUID() ib.GUID { return ib.GUID(binary.BigEndian.Uint64(r[28:])) }

// Private is the private data, 196 bytes.
func (r REP) Private() []byte { return r[36 : 36+REPPrivateSize] }

// REPFields is a REP as values, for building.
type REPFields struct {
	LocalCommID        uint32
	RemoteCommID       uint32
	LocalQPN           ib.QPN
	StartingPSN        ib.PSN
	ResponderResources uint8
	InitiatorDepth     uint8
	TargetAckDelay     uint8
	FlowControl        bool
	RNRRetryCount      uint8
	SRQ                bool
	CAGUID             ib.GUID
	Private            []byte
}

// Append appends the whole 256-byte MAD to dst. Its error wraps ErrPrivate.
func (f *REPFields) Append(dst []byte, tid uint64) ([]byte, error) {
	all, b := begin(dst, AttrREP, tid)
	binary.BigEndian.PutUint32(b, f.LocalCommID)
	binary.BigEndian.PutUint32(b[4:], f.RemoteCommID)
	put24(b[12:], uint32(f.LocalQPN), 0)
	put24(b[20:], uint32(f.StartingPSN), 0)
	b[24] = f.ResponderResources
	b[25] = f.InitiatorDepth
	b[26] = f.TargetAckDelay<<3 | flag(f.FlowControl, 1)
	b[27] = f.RNRRetryCount<<5 | flag(f.SRQ, 0x10)
	binary.BigEndian.PutUint64(b[28:], uint64(f.CAGUID))
	return all, putPrivate(REP(b).Private(), f.Private)
}
