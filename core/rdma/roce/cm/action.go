package cm

import "github.com/gosrpt/gosrpt/core/ib"

// ActionKind says what an Action asks of the caller, or tells it.
type ActionKind uint8

// The kinds. A connection that Connect or ActionRequest began gets at most one ActionEstablished, then
// exactly one ActionEnded, then exactly one ActionReleased.
const (
	// ActionSend: send MAD to QP 1 of Peer. Actions are to be done in order.
	ActionSend ActionKind = iota + 1
	// ActionRequest: Peer asks for a connection; Request tells what. Answer with Accept, Reject or Disconnect
	// within Config.PendingLimit.
	ActionRequest
	// ActionEstablished: the connection stands. On the active side Reply holds the peer's values;
	// the QP must be made ready (RTR, RTS) before the RTU, the ActionSend behind, is sent.
	ActionEstablished
	// ActionEnded: the connection is over, or never came to be; Cause tells why. The QP must not send any more.
	ActionEnded
	// ActionReleased: the machine has forgotten the connection; its QPN may be used again.
	ActionReleased
)

// Cause is why a connection ended.
type Cause uint8

// The causes.
const (
	// CauseLocal: the user rejected or disconnected.
	CauseLocal Cause = iota + 1
	// CausePeer: the peer disconnected.
	CausePeer
	// CauseRejected: the peer sent REJ; Reason, and Private, tell why.
	CauseRejected
	// CauseTimeout: the peer did not answer.
	CauseTimeout
	// CauseStale: the peer has lost the connection: it uses the same QP or communication id for another one.
	CauseStale
	// CauseUnanswered: the user did not answer the request in time. The peer was told ReasonNoResources.
	CauseUnanswered
)

// String names the cause.
func (c Cause) String() string {
	names := [...]string{CauseLocal: "local request", CausePeer: "disconnected by the peer", CauseRejected: "rejected by the peer",
		CauseTimeout: "no answer from the peer", CauseStale: "the peer has lost the connection", CauseUnanswered: "not answered in time"}
	if int(c) < len(names) && c > 0 {
		return names[c]
	}
	return "unknown cause"
}

// Action is one thing that the caller must do or know. Its slices are valid until the next Step.
type Action struct {
	Kind ActionKind
	// Conn is the connection; 0 for an ActionSend that belongs to none.
	Conn Handle
	// Peer is the peer's IP address.
	Peer ib.GID
	// MAD is the 256 bytes to send, of ActionSend.
	MAD []byte
	// Request is of ActionRequest, Reply of the active side's ActionEstablished.
	Request *Request
	Reply   *Reply
	// Cause is of ActionEnded; Reason and Private go with CauseRejected. Private is REJPrivateSize bytes.
	Cause   Cause
	Reason  Reason
	Private []byte
}

// Request is what a peer asks for, seen from this end.
type Request struct {
	ServiceID uint64
	// RemoteQPN is the peer's queue pair.
	RemoteQPN ib.QPN
	// SendPSN is the first PSN that the local QP sends with.
	SendPSN ib.PSN
	// InitiatorDepth is how many RDMA READs the local QP may have outstanding; ResponderResources, how
	// many the peer wants to have outstanding.
	InitiatorDepth, ResponderResources uint8
	PathMTU                            ib.MTU
	PKey                               ib.PKey
	// RetryCount and RNRRetryCount are for the local QP, 0..7; 7 RNR retries are without end.
	RetryCount, RNRRetryCount uint8
	// AckTimeout is the code of the peer's local ACK timeout.
	AckTimeout uint8
	// FlowControl tells that the peer gives credits in its acknowledgements.
	FlowControl bool
	CAGUID      ib.GUID
	// RemoteGID and LocalGID are the ends as the peer names them.
	RemoteGID, LocalGID ib.GID
	// IPAddressed tells that the request came with an IP header, which is IP and no part of Private.
	IPAddressed bool
	IP          IPHeader
	// Private is the consumer's data: 56 bytes with IP addressing, else 92.
	Private []byte
}

// Reply is what a peer answered to Connect, seen from this end.
type Reply struct {
	// RemoteQPN is the peer's queue pair.
	RemoteQPN ib.QPN
	// SendPSN is the first PSN that the local QP sends with.
	SendPSN ib.PSN
	// InitiatorDepth is how many RDMA READs the local QP may have outstanding; ResponderResources, how
	// many the peer will have outstanding.
	InitiatorDepth, ResponderResources uint8
	// AckDelay is the code of the longest time that the peer takes to acknowledge.
	AckDelay uint8
	// RNRRetryCount is for the local QP.
	RNRRetryCount uint8
	FlowControl   bool
	CAGUID        ib.GUID
	// Private is the consumer's data, 196 bytes.
	Private []byte
}

func newRequest(r REQ) *Request {
	q := &Request{
		ServiceID: r.ServiceID(), RemoteQPN: r.LocalQPN(), SendPSN: r.StartingPSN(),
		InitiatorDepth: r.ResponderResources(), ResponderResources: r.InitiatorDepth(),
		PathMTU: r.PathMTU(), PKey: r.PKey(), RetryCount: r.RetryCount(), RNRRetryCount: r.RNRRetryCount(),
		AckTimeout: r.AckTimeout(), FlowControl: r.FlowControl(), CAGUID: r.CAGUID(),
		RemoteGID: r.LocalGID(), LocalGID: r.RemoteGID(),
	}
	// Only the service ids of RDMA/CM promise an IP header; other data may look like one.
	_, q.IPAddressed = ServicePort(q.ServiceID)
	q.Private = r.Private()
	if q.IPAddressed {
		q.IP, q.Private, q.IPAddressed = ParseIPHeader(q.Private)
	}
	q.Private = append([]byte(nil), q.Private...)
	return q
}

func newReply(r REP) *Reply {
	return &Reply{
		RemoteQPN: r.LocalQPN(), SendPSN: r.StartingPSN(),
		InitiatorDepth: r.ResponderResources(), ResponderResources: r.InitiatorDepth(),
		AckDelay: r.TargetAckDelay(), RNRRetryCount: r.RNRRetryCount(), FlowControl: r.FlowControl(),
		CAGUID: r.CAGUID(), Private: append([]byte(nil), r.Private()...),
	}
}
