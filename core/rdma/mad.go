package rdma

import (
	"context"

	"github.com/gosrpt/gosrpt/core/ib"
)

// MADDevice is a Device whose ports take management datagrams (MADs) of the general services interface, queue pair 1
// (IBTA vol 1, 13.5.1). A Device that is none has no discovery and can still be logged in to.
type MADDevice interface {
	Device
	// OpenMAD registers for a management class on a port. It returns an error that wraps ErrInUse if requests of the class
	// with one of the methods already go to somebody else, in this process or another one; ErrInvalid if the device has
	// no such port; ErrUnsupported if it is one that has no datagrams after all, as with iWARP. Any number of MADPorts with no methods can be open.
	OpenMAD(port int, cfg MADConfig) (MADPort, error)
}

// MADConfig says which datagrams go to a MADPort.
type MADConfig struct {
	// Class is the management class.
	Class ib.Class
	// Version is the version of the class. Where the operating system sorts datagrams, it answers or drops those of other
	// versions itself; other providers hand them out, for the reader to refuse.
	Version uint8
	// Methods are those of the requests that go to the port. With none, it gets only the responses to what it sends.
	Methods []ib.Method
}

// MADBufferSize is the room that MADPort.Receive needs: the longest packet payload. Well-formed datagrams have ib.MADSize.
const MADBufferSize = 4096

// MADPort receives and sends the datagrams of one class on one port. Receive may be called by one goroutine at a time,
// the other methods from any. The port's link may go down and up, and its addresses change, without it having to be opened
// again.
type MADPort interface {
	// Receive waits for the next datagram, puts it into b, which has at least MADBufferSize bytes (else ErrInvalid), and
	// returns its length and where it came from. The length may be any: datagrams are handed out as they came. Only a
	// bounded number is kept for a reader that is late; the rest is lost and counted. What is there is returned even if
	// ctx has ended. It returns ErrClosed after Close, of this or of the device, and ctx.Err if ctx ends first.
	Receive(ctx context.Context, b []byte) (n int, from MADAddr, err error)
	// Send sends the ib.MADSize bytes of b, which may be reused once it returns. It does not wait for the peer, and that a
	// datagram is lost is not an error. ErrInvalid: b has another length, or the address can not be reached from the
	// port, such as one without a GRH on Ethernet.
	//
	// A response, sent to what Receive returned as from, goes back the way that the request came: same partition, GRH
	// if and only if the request had one, transaction id untouched. A request gets the upper 32 bits of its transaction
	// id from the provider, and the response that carries them comes to this MADPort.
	Send(to MADAddr, b []byte) error
	// Close gives the registration up; somebody else can have it when it returns.
	Close() error
}

// MADAddr is where a datagram came from or goes to, seen from the port.
type MADAddr struct {
	// LID is the peer's; 0 on Ethernet. PathBits are the low bits of the port's own LID that are used.
	LID      ib.LID
	PathBits uint8
	// SL is the service level.
	SL uint8
	// QPN is the peer's queue pair, ib.QPGeneralServices for what others ask.
	QPN ib.QPN
	// PKeyIndex is the place of the path's partition key in the port's table.
	PKeyIndex uint16
	// HasGRH tells whether the datagram has a global route header, and GRH holds it. Ethernet requires one.
	HasGRH bool
	GRH    MADRoute
}

// MADRoute is what a MADAddr says of the global route header (IBTA vol 1, 8.3).
type MADRoute struct {
	// GID is the peer's. GIDIndex is the place of the port's own in its table.
	GID      ib.GID
	GIDIndex uint8
	// HopLimit, TrafficClass and FlowLabel (20 bits) are sent as they are; a HopLimit of 0 stays within the subnet.
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32
}
