package rc

// Kind is the kind of a work request.
type Kind uint8

// The kinds.
const (
	Send Kind = iota + 1
	Write
	Read
	Recv
)

// Work is a work request for PostSend.
type Work struct {
	ID        uint64
	Kind      Kind
	Signaled  bool
	Solicited bool
	// VA and RKey name the peer's memory, for Write and Read.
	VA   uint64
	RKey uint32
	// Segs is the local memory, which the machine uses until the completion. The slice of slices
	// is copied.
	Segs [][]byte
}

// Status is how a work request ended (IBTA vol 1, 11.6.2).
type Status uint8

// The statuses.
const (
	OK Status = iota
	Flushed
	LocalLength
	RemoteInvalid
	RemoteAccess
	RemoteOperation
	RetryExceeded
	RNRRetryExceeded
)

// Completion reports the end of a work request.
type Completion struct {
	ID        uint64
	Kind      Kind
	Status    Status
	Solicited bool
	// Bytes is the length received, for Recv.
	Bytes uint32
}

// Stats counts what happened since the machine was made.
type Stats struct {
	PacketsIn, PacketsOut uint64
	// Duplicates are requests that came again, OutOfOrder those that overtook others, Held those
	// of them that were kept, BadPackets those that made no sense.
	Duplicates, OutOfOrder, Held, BadPackets uint64
	// NaksSent and NaksReceived count NAKs but for RNR.
	NaksSent, NaksReceived uint64
	RNRSent, RNRReceived   uint64
	// Retransmits are packets sent again; ReadRestarts are READ requests asked again from where
	// their responses stopped.
	Retransmits, ReadRestarts uint64
	Timeouts, Probes          uint64
	// Acks are acknowledgements sent; KeepAlives the probes of a silent peer.
	Acks, KeepAlives uint64
}
