package cm

import "github.com/gosrpt/gosrpt/core/ib"

// Handle names a connection of one Machine. It is never used again. 0 is none.
type Handle uint64

// Event is what happens to a Machine: one of the types below.
type Event interface{ event() }

// Received is a management datagram from a peer. It must have come to QP 1 with the right Q_Key.
type Received struct {
	// Peer is the IP source address, as a GID.
	Peer ib.GID
	// MAD is the datagram's payload. It is only read, and not kept.
	MAD []byte
}

// Tick says that time has passed. The caller owes one when Deadline comes; extra ones do no harm.
type Tick struct{}

// Traffic says that the connection's QP has received a valid RC packet: the peer has had the REP, so it
// stands for an RTU that may come late or never ("communication established", IBTA 12.9). It
// is only needed until ActionEstablished; later it changes nothing.
type Traffic struct{ Conn Handle }

// Connect starts a connection. The answer is ActionEstablished or ActionEnded.
type Connect struct {
	// Conn is a new handle, from NewHandle.
	Conn Handle
	// Local and Peer are the ends' IP addresses, as GIDs.
	Local, Peer ib.GID
	ServiceID   uint64
	// QPN is the local queue pair. It must be ready to receive packets (RTR) from the REP's peer
	// values on, when ActionEstablished is handled.
	QPN ib.QPN
	// RecvPSN is the first PSN that the local QP expects. Choose it at random.
	RecvPSN ib.PSN
	PathMTU ib.MTU
	PKey    ib.PKey
	// ResponderResources is how many RDMA READs the local QP serves; InitiatorDepth, how many it
	// wants to have outstanding.
	ResponderResources, InitiatorDepth uint8
	// RetryCount and RNRRetryCount are for the peer's QP, 0..7.
	RetryCount, RNRRetryCount uint8
	// AckTimeout is the code of the local ACK timeout.
	AckTimeout uint8
	// Private is the private data as it goes out, the IP header included; up to REQPrivateSize bytes. It is copied.
	Private []byte
	// Limit bounds the whole attempt, in nanoseconds; 0 means Config.HandshakeLimit.
	Limit int64
}

// Accept answers an ActionRequest with a REP. ActionEstablished or ActionEnded follows. The local QP
// must be ready to receive (RTR) before the REP goes out.
type Accept struct {
	Conn Handle
	// QPN is the local queue pair.
	QPN ib.QPN
	// RecvPSN is the first PSN that the local QP expects. Choose it at random.
	RecvPSN ib.PSN
	// ResponderResources is how many RDMA READs the local QP serves; InitiatorDepth, how many it will have
	// outstanding, at most Request.InitiatorDepth. Linux peers refuse READs when it is 0.
	ResponderResources, InitiatorDepth uint8
	// AckDelay is the code of the longest time that the local end takes to acknowledge. A Linux peer
	// derives its retransmission timer from it.
	AckDelay uint8
	// RNRRetryCount is for the peer's QP, 7 for ever.
	RNRRetryCount uint8
	// FlowControl tells that the local QP gives credits in its acknowledgements.
	FlowControl bool
	// SRQ tells that the local QP takes its receives from a shared queue.
	SRQ bool
	// Private is up to REPPrivateSize bytes. It is copied.
	Private []byte
}

// Reject answers an ActionRequest with a REJ. ActionEnded and ActionReleased are among its actions.
type Reject struct {
	Conn   Handle
	Reason Reason
	// ARI is up to ARISize bytes, Private up to REJPrivateSize. They are copied.
	ARI, Private []byte
}

// Disconnect ends a connection in any state: it withdraws a request, refuses one, or sends DREQ. ActionEnded
// follows, at once or when the peer has answered or cannot be reached.
type Disconnect struct{ Conn Handle }

func (Received) event()   {}
func (Tick) event()       {}
func (Traffic) event()    {}
func (Connect) event()    {}
func (Accept) event()     {}
func (Reject) event()     {}
func (Disconnect) event() {}
