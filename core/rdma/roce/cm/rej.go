package cm

import (
	"encoding/binary"
	"fmt"
)

// Refused tells which message a REJ or MRA is about (IBTA 12.6.7, 12.6.6).
type Refused uint8

// The messages.
const (
	RefusedREQ   Refused = 0
	RefusedREP   Refused = 1
	RefusedOther Refused = 2
)

// REJ is a view of a reject (IBTA 12.6.7): the 232 bytes after the MAD header.
type REJ []byte

// LocalCommID is the sender's communication id, 0 if it made none.
func (r REJ) LocalCommID() uint32 { return binary.BigEndian.Uint32(r) }

// RemoteCommID is the receiver's communication id.
func (r REJ) RemoteCommID() uint32 { return binary.BigEndian.Uint32(r[4:]) }

// Refused is the message that is refused.
func (r REJ) Refused() Refused { return Refused(r[8] >> 6) }

// Reason is why.
func (r REJ) Reason() Reason { return Reason(binary.BigEndian.Uint16(r[10:])) }

// ARI is the additional reject information, 0 to 72 bytes; what it means depends on the reason.
func (r REJ) ARI() []byte { return r[12 : 12+min(int(r[9]>>1), ARISize)] }

// Private is the private data, 148 bytes.
func (r REJ) Private() []byte { return r[84 : 84+REJPrivateSize] }

// REJFields is a REJ as values, for building.
type REJFields struct {
	LocalCommID  uint32
	RemoteCommID uint32
	Refused      Refused
	Reason       Reason
	ARI          []byte
	Private      []byte
}

// Append appends the whole 256-byte MAD to dst. Its error wraps ErrPrivate.
func (f *REJFields) Append(dst []byte, tid uint64) ([]byte, error) {
	all, b := begin(dst, AttrREJ, tid)
	binary.BigEndian.PutUint32(b, f.LocalCommID)
	binary.BigEndian.PutUint32(b[4:], f.RemoteCommID)
	b[8] = uint8(f.Refused) << 6
	if len(f.ARI) > ARISize {
		return all, fmt.Errorf("reject information: %w: %d bytes, there is room for %d", ErrPrivate, len(f.ARI), ARISize)
	}
	b[9] = uint8(len(f.ARI)) << 1
	binary.BigEndian.PutUint16(b[10:], uint16(f.Reason))
	copy(b[12:], f.ARI)
	return all, putPrivate(REJ(b).Private(), f.Private)
}

// Reason is the reason of a REJ (IBTA 12.6.7.2, table 108).
type Reason uint16

// The reasons that this package gives.
const (
	ReasonNoQP            Reason = 1
	ReasonNoResources     Reason = 3
	ReasonTimeout         Reason = 4
	ReasonUnsupported     Reason = 5
	ReasonInvalidCommID   Reason = 6
	ReasonInvalidService  Reason = 8
	ReasonTransportType   Reason = 9
	ReasonStaleConnection Reason = 10
	ReasonInvalidMTU      Reason = 26
	ReasonConsumer        Reason = 28
)

var reasons = [...]string{
	1: "no QP", 2: "no EEC", 3: "no resources", 4: "timeout", 5: "unsupported request", 6: "invalid communication id",
	7: "invalid communication instance", 8: "invalid service id", 9: "invalid transport service type",
	10: "stale connection", 11: "RDC does not exist", 12: "primary remote port GID invalid",
	13: "primary remote LID invalid", 14: "invalid SL", 15: "invalid traffic class", 16: "invalid hop limit",
	17: "invalid packet rate", 18: "invalid alternate GID", 19: "invalid alternate LID", 20: "invalid alternate SL",
	21: "invalid alternate traffic class", 22: "invalid alternate hop limit", 23: "invalid alternate packet rate",
	24: "port and CM redirect", 25: "port redirect", 26: "invalid path MTU", 27: "insufficient responder resources",
	28: "consumer defined", 29: "RNR retry count rejected", 30: "duplicate local communication id",
	31: "unsupported class version", 32: "invalid flow label", 33: "invalid alternate flow label",
	35: "vendor option not supported",
}

// String names the reason.
func (r Reason) String() string {
	if int(r) < len(reasons) && reasons[r] != "" {
		return reasons[r]
	}
	return fmt.Sprintf("reason %d", uint16(r))
}
