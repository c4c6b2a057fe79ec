package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Provider finds the RDMA devices of one kind.
type Provider interface {
	// Name is the provider's configured name, such as "roce".
	Name() string
	// Devices lists the devices that are there now. It may read the kernel's tables, never the network.
	Devices(ctx context.Context) ([]Device, error)
	// Close closes every device. It returns after the provider's goroutines have ended.
	Close() error
}

// Device is one HCA: an adapter, or for roce a network interface.
type Device interface {
	// Name is the operator's name of the device, such as "eth0" or "mlx5_0".
	Name() string
	// Attr returns the device's limits and identity. They do not change while it is open.
	Attr() DeviceAttr
	// Ports lists the device's ports as they are now.
	Ports() ([]Port, error)
	// NewCQ makes a completion queue.
	NewCQ(cfg CQConfig) (CQ, error)
	// Register gives the device access to mem, which stays in place and mapped until Region.Close
	// has returned. Memory that is remotely accessible gets an unpredictable RKey, unless hardware chooses it.
	Register(mem []byte, access Access) (Region, error)
	// Listen accepts connections to a service. It returns an error that wraps ErrInUse if the
	// service is taken.
	Listen(svc Service) (Listener, error)
	// Stats returns the device's counters, by name, since it was opened. Names are lower_snake_case.
	Stats() map[string]uint64
	// Close closes the device's listeners, queue pairs and regions. Their memory is untouched by
	// the device once it returns. CQ owners must have stopped polling.
	Close() error
}

// DeviceAttr says what a device is and can do.
type DeviceAttr struct {
	// NodeGUID identifies the device and is stable across restarts.
	NodeGUID ib.GUID
	// MaxSGE is the most elements an SGL may have, in any work request.
	MaxSGE int
	// MaxQPWork is the most work requests of one direction that a QP can have outstanding.
	MaxQPWork int
	// MaxReads is the most RDMA READs a QP can have outstanding as requester, and as responder: 0 if it can have none as one of them.
	MaxReads int
	// MaxMessage is the longest message, in bytes.
	MaxMessage uint32
	// IWARP tells that the device's transport is iWARP, over TCP. Its SENDs and WRITEs complete when they are on their way, and may have
	// succeeded though the peer refuses them; a SEND that meets no receive ends the connection; ends of a connection do not know the
	// other's number or GID, or a path MTU; and there are no management datagrams.
	IWARP bool
}

// Port is a snapshot of one port of a device.
type Port struct {
	// Num counts from 1.
	Num int
	// GUID identifies the port and is stable across restarts.
	GUID ib.GUID
	// Active tells whether the link is up: State is PortActive.
	Active bool
	// State is the port's logical state.
	State ib.PortState
	// Link is what its frames travel on.
	Link ib.LinkLayer
	// LID, LMC and SMLID are what a subnet manager has given it: 0 on Ethernet, and while there is none.
	LID, SMLID ib.LID
	LMC        uint8
	// PKeys is the port's table of partition keys; entries that are 0 are empty.
	PKeys []ib.PKey
	// MTU is the largest path MTU that the port can carry, in bytes, 256..4096.
	MTU int
	// GIDs is the port's GID table. On Ethernet a GID is an IPv6 or IPv4-mapped address.
	GIDs []ib.GID
	// Addrs is the IP addresses that connections may be made to; link-local ones carry their zone.
	Addrs []netip.Addr
}

// Service is where a Listener listens, or a connection goes.
type Service struct {
	// Addr is the IP address and RDMA/CM port. An invalid address means every address of the device.
	Addr netip.AddrPort
	// ID, if not 0, is an InfiniBand service id in place of Addr, at the port that has GID: connections by it have no IP addressing. Only a
	// provider whose devices have InfiniBand ports can listen to one, and not to every id (see ServiceID), or connect to one; others return
	// ErrInvalid.
	ID uint64
	// GID goes with ID alone, and has to.
	GID ib.GID
}

// ServiceID is the service id that stands for an RDMA/CM port where there is no IP addressing (IBTA vol 1, annex A11.2; RDMA_PS_IB of
// Linux, whose kernel lets a process listen to such ids alone).
func ServiceID(port uint16) uint64 { return servicePrefix | uint64(port) }

const servicePrefix = 0x0000_0000_013F_0000

// IsServiceID tells whether ServiceID makes id of a port other than 0.
func IsServiceID(id uint64) bool { return id&^0xFFFF == servicePrefix && id != servicePrefix }

// String is how the operator writes a service.
func (s Service) String() string {
	switch {
	case s.ID != 0 && s.GID == ib.GID{}:
		return fmt.Sprintf("service id %016x", s.ID)
	case s.ID != 0:
		return fmt.Sprintf("service id %016x at %v", s.ID, s.GID)
	case !s.Addr.Addr().IsValid():
		return fmt.Sprintf("*:%d", s.Addr.Port())
	}
	return s.Addr.String()
}

// CQConfig is the configuration of a completion queue.
type CQConfig struct {
	// Depth is how many completions the queue must be able to hold. A provider may round it up. A device may have less; NewQP then returns
	// an error that wraps ErrFull before the depths of the queue pairs exceed it.
	Depth int
	// Wake, if not nil, is called from any goroutine whenever the owner should Poll again after an
	// Arm. It must not block. A CQ whose FD is -1 relies on it.
	Wake func()
	// Index numbers the CQs of a device from 0; a provider that steers traffic in hardware or in
	// the kernel uses it. Count is the number of CQs that the owner intends to make; 0 means 1.
	Index, Count int
}

// CQ is a completion queue, and the place where its QPs make progress. See the package comment for
// who may call it.
type CQ interface {
	// Poll moves the transport forward without blocking and fills c with completions, oldest
	// first. It returns how many there are; a full c may mean that there are more. The completions
	// of one QP and one direction come in the order of posting. Acknowledgements of what Poll
	// received are on their way when it returns.
	Poll(c []Completion) int
	// Flush transmits what was posted since the last Flush. Providers may transmit earlier.
	Flush()
	// Arm asks for a wake-up, by FD or Wake, at the next completion. It returns false if something
	// is there already: Poll again instead of waiting. Arm implies Flush.
	Arm() bool
	// FD is a descriptor that polls readable when Poll should be called, or -1 if the CQ uses
	// only CQConfig.Wake. It stays the CQ's: never read, never close it.
	FD() int
	// Deadline is when Poll must be called even if nothing wakes the owner; the zero time means
	// never.
	Deadline() time.Time
	// NewQP makes a queue pair on the CQ.
	NewQP(cfg QPConfig) (QP, error)
	// Close frees the queue. All its QPs must have been closed.
	Close() error
}

// QPConfig is the configuration of a queue pair. The provider may grant more, and less of MaxSGE alone.
type QPConfig struct {
	// User is returned in every Completion of the QP.
	User uint64
	// SendDepth and RecvDepth are the most work requests outstanding in each direction.
	SendDepth, RecvDepth int
	// MaxSGE is the longest SGL that the owner would like to post; 0 means 1. QP.MaxSGE is what it may: a device may have fewer elements for
	// a queue pair of these depths than its attributes tell of.
	MaxSGE int
	// SRQ, if not nil, is where the QP takes its receives from: a queue of the same CQ. Its PostRecv then answers ErrInvalid, and
	// RecvDepth says how many receives it will have at one time that were taken and not completed by Poll: a provider may let messages
	// beyond that wait, and need not.
	SRQ SRQ
}

// QP is one reliable connection. See the package comment for who may call it.
type QP interface {
	// Num is the queue pair number, 24 bits.
	Num() uint32
	// MaxSGE is the longest SGL that may be posted: QPConfig.MaxSGE, or less, at least 1.
	MaxSGE() int
	// PostSend queues work in order and returns how many were taken. All or some are taken until
	// the send queue is full, then err is ErrFull; nothing after a refused one is taken. It never
	// blocks. Work of a QP that is not connected yet, or is in error, is taken and flushed; after
	// EventDisconnected has been returned, err is ErrState.
	PostSend(work []Work) (n int, err error)
	// PostRecv queues receive buffers; as PostSend. It may be called before the QP is connected.
	PostRecv(work []Work) (n int, err error)
	// Accept answers req with this QP. It returns at once; EventEstablished, or an error event
	// follows through Poll. private goes into the reply (RDMA/CM: up to 196 bytes) and is copied.
	// On iWARP what this side sends waits until the first message of the other has come (RFC 5044, 7.1.2).
	Accept(req ConnRequest, private []byte) error
	// Connect starts a connection and returns at once; EventEstablished (its Data is the private
	// data of the reply), EventRejected or EventFailed follows through Poll.
	Connect(p ConnectParams) error
	// Disconnect tells the peer to end the connection (DREQ) and puts the QP into error. Completions with StatusFlushed for
	// all posted work follow, then EventDisconnected. It returns at once: ErrState if the QP was never connected, nil
	// and no second event if the connection has ended already.
	Disconnect() error
	// Close destroys the QP at once. No completion of the QP is returned, and no memory of its
	// work is touched, after it returns, but for the receives that it took from an SRQ: see there. The peer is told if it was connected.
	Close() error
	// Info describes the connection for the operator.
	Info() ConnInfo
}

// ConnectParams says where an active connection goes.
type ConnectParams struct {
	// Local is the source address; an invalid one lets the device choose.
	Local netip.Addr
	// Remote is the peer's service.
	Remote Service
	// Private is the private data of the request, up to 56 bytes with IP addressing and 92 without. It is copied.
	Private []byte
	// Timeout bounds the whole attempt; 0 means the provider's default.
	Timeout time.Duration
}

// ConnInfo describes a connection.
type ConnInfo struct {
	// Device and Port name the local end.
	Device string
	Port   int
	// Local and Remote are the ends' addresses if the connection is IPAddressed. Remote carries the peer's RDMA/CM port, if known.
	Local, Remote netip.AddrPort
	// LocalGID and RemoteGID are the ends' GIDs.
	LocalGID, RemoteGID ib.GID
	// PKey is the partition of the path.
	PKey uint16
	// RemoteQPN is the peer's queue pair number, 0 while unknown.
	RemoteQPN uint32
	// PathMTU is in bytes, 0 while unknown.
	PathMTU int
	// Reads is how many RDMA READs this end may have outstanding: what it can make, or what the peer serves if that is less. It is known of
	// a request, and of a connection that is established. With 0 none can be made, and one that is posted ends the connection.
	Reads int
	// IPAddressed tells that the request came through RDMA/CM with IP addressing, which decides
	// the form of the SRP login request.
	IPAddressed bool
}

// LocalName is the local end for the operator: its address, or its GID where there is none.
func (i *ConnInfo) LocalName() string { return endName(i.Local, i.LocalGID) }

// RemoteName is the same of the peer.
func (i *ConnInfo) RemoteName() string { return endName(i.Remote, i.RemoteGID) }

func endName(a netip.AddrPort, g ib.GID) string {
	if a.Addr().IsValid() {
		return a.String()
	}
	return g.String()
}

// Listener hands out connection requests.
type Listener interface {
	// Accept waits for the next request. It returns ErrClosed after Close, and ctx.Err if ctx
	// ends first. A request that is neither accepted nor rejected within the peer's patience is
	// given up by the provider, which then answers ErrGone.
	Accept(ctx context.Context) (ConnRequest, error)
	// Service is what is listened on.
	Service() Service
	// Close ends listening. Requests already handed out stay valid.
	Close() error
}

// ConnRequest is a request for a connection. QP.Accept or Reject ends it.
type ConnRequest interface {
	// Private is the private data that is left to the consumer: 56 bytes when Info().IPAddressed,
	// else 92. It is the request's; copy what must outlive it.
	Private() []byte
	// Info describes the connection asked for.
	Info() ConnInfo
	// Device is the device that the request came in on; the QP that accepts must be of it.
	Device() Device
	// Reject refuses the request. Private data goes with RejectConsumer only. It is copied. A provider that cannot send the reason
	// sends RejectConsumer without data.
	Reject(reason RejectReason, private []byte) error
}

// RejectReason is the reason of a CM REJ (IBTA vol 1, 12.6.7.2).
type RejectReason uint16

// The reasons the product uses.
const (
	RejectNoQP            RejectReason = 1
	RejectNoResources     RejectReason = 3
	RejectTimeout         RejectReason = 4
	RejectUnsupported     RejectReason = 5
	RejectInvalidService  RejectReason = 8
	RejectStaleConnection RejectReason = 10
	RejectInvalidMTU      RejectReason = 26
	RejectConsumer        RejectReason = 28
)

// Access is what a Region permits. Local read and local write are always permitted.
type Access uint8

// Access rights of the remote side, and what the region is used for.
const (
	RemoteRead Access = 1 << iota
	RemoteWrite
	// ReadSink has to be asked for where OpRead is to put data. It is no right of the remote side but on iWARP, whose READ is answered by
	// what is a write to the sink: there the region is remotely writable by whoever knows its key, which the peer that is read from is told.
	ReadSink

	allAccess = RemoteRead | RemoteWrite | ReadSink
)

// Valid tells whether a has no other bits than those of this package.
func (a Access) Valid() bool { return a&^allAccess == 0 }

// Remote is the part of a that the remote side is given on every transport.
func (a Access) Remote() Access { return a & (RemoteRead | RemoteWrite) }

// Region is registered memory.
type Region interface {
	// Bytes is the memory that was registered.
	Bytes() []byte
	// Addr is the address by which a peer names Bytes()[0].
	Addr() uint64
	// RKey is the key by which a peer may use it, as registered.
	RKey() uint32
	// Close ends the device's access. No work may name the region any more.
	Close() error
}

// SGE is one element of a scatter-gather list: Len bytes at offset Off of Region.
type SGE struct {
	Region   Region
	Off, Len uint64
}

// Op is an operation.
type Op uint8

// The operations. OpEvent is a completion that reports a connection event and belongs to no Work.
const (
	OpSend Op = iota + 1
	OpWrite
	OpRead
	OpRecv
	OpEvent
)

// Flags of a Work.
type Flags uint8

const (
	// Signaled asks for a completion on success; failures always complete. An unsignaled Work is
	// done when a later signaled one of the same QP's send queue completes.
	Signaled Flags = 1 << iota
	// Solicited sets the solicited-event bit of a SEND.
	Solicited
)

// Work is a work request.
type Work struct {
	// ID is returned in the completion.
	ID uint64
	Op Op
	Flags
	// SGL is local memory: the source of OpSend and OpWrite, the sink of OpRead and OpRecv.
	SGL []SGE
	// RemoteAddr and RKey name the peer's memory for OpWrite and OpRead.
	RemoteAddr uint64
	RKey       uint32
}

// Completion reports the end of a Work, or an event.
type Completion struct {
	// ID is the Work's; 0 for OpEvent.
	ID uint64
	// User is the QPConfig.User of the QP.
	User uint64
	Op   Op
	// Status is valid for every Op but OpEvent.
	Status Status
	// Event is valid for OpEvent.
	Event EventKind
	// Bytes is the length received, for OpRecv.
	Bytes uint32
	// Reason is the CM REJ reason of EventRejected.
	Reason RejectReason
	// Data is the peer's private data of EventEstablished (active side) and EventRejected. It is the
	// caller's.
	Data []byte
	// Cause is why the connection ended, for EventFailed and EventDisconnected, if the provider ended it for a reason of this
	// side, such as an address that is gone; else nil.
	Cause error
}

// EventKind is a connection event.
type EventKind uint8

const (
	// EventEstablished: both sides agree. Receives may complete before it.
	EventEstablished EventKind = iota + 1
	// EventRejected: the peer refused; Reason and Data tell why. Where nobody listens the reason is
	// RejectInvalidService. The QP can only be closed now.
	EventRejected
	// EventFailed: the connection could not be made: no answer, or no route.
	EventFailed
	// EventDisconnected: the connection ended, by either side, or the transport gave up. All posted
	// work has completed. It is the QP's last completion.
	EventDisconnected
)

// Status is how a Work ended.
type Status uint8

// The statuses, after IBTA vol 1, 11.6.2. A message that is longer than the receive it meets ends with
// StatusLocalLength there and with StatusRemoteInvalid at the sender, and ends the connection.
const (
	StatusOK Status = iota
	StatusFlushed
	StatusLocalLength
	StatusLocalProtection
	StatusRemoteInvalid
	StatusRemoteAccess
	StatusRemoteOperation
	StatusRetryExceeded
	StatusRNRRetryExceeded
)
