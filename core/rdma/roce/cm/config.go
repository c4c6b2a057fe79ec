package cm

import "github.com/gosrpt/gosrpt/core/ib"

const (
	millisecond = int64(1_000_000)
	second      = 1000 * millisecond
)

// Config is the configuration of a Machine. Times are in nanoseconds. The zero value of a number means
// the default that its comment names. Rand must be set.
type Config struct {
	// CAGUID is the local adapter.
	CAGUID ib.GUID
	// Rand returns unpredictable numbers: communication ids must not be guessed.
	Rand func() uint32

	// RetryInterval is the wait before a message is repeated first; 500 ms. It doubles each time up to MaxRetryInterval; 4 s.
	RetryInterval, MaxRetryInterval int64
	// RequestRetries is how often a REQ is repeated; 15. ReplyRetries, a REP; 7: each is sent to an address
	// that is not proved yet. DisconnectRetries, a DREQ; 5. The peer's own limit of retries is kept as well.
	RequestRetries, ReplyRetries, DisconnectRetries int
	// ResponseTimeout is the code of the time within which this end answers, and expects answers, as told
	// to the peer; 20, which is 4.3 s.
	ResponseTimeout uint8
	// PendingLimit is how long the user may take to answer a request; 30 s.
	PendingLimit int64
	// HandshakeLimit bounds a handshake from its first message on, whatever MRAs the peer sends; 120 s.
	HandshakeLimit int64
	// MaxTimewait bounds the time for which an ended connection is kept, which follows the ACK timeout
	// of the REQ; 10 s.
	MaxTimewait int64
	// RejectMemory is how long a refused request is remembered, to repeat the REJ that may have been lost; 10 s.
	RejectMemory int64

	// MaxHalfOpen bounds the incoming requests that are not established yet, of all peers; 1024.
	// MaxHalfOpenPerPeer, of one peer; 64. A request above a bound is dropped, as if it had been lost:
	// the peer repeats it.
	MaxHalfOpen, MaxHalfOpenPerPeer int
	// MaxRemembered bounds the ended connections that are kept, refused ones and those in timewait each; 1024.
	// The oldest make room.
	MaxRemembered int
}

func (c Config) withDefaults() Config {
	def(&c.RetryInterval, 500*millisecond)
	def(&c.MaxRetryInterval, 4*second)
	def(&c.RequestRetries, 15)
	def(&c.ReplyRetries, 7)
	def(&c.DisconnectRetries, 5)
	def(&c.ResponseTimeout, 20)
	def(&c.PendingLimit, 30*second)
	def(&c.HandshakeLimit, 120*second)
	def(&c.MaxTimewait, 10*second)
	def(&c.RejectMemory, 10*second)
	def(&c.MaxHalfOpen, 1024)
	def(&c.MaxHalfOpenPerPeer, 64)
	def(&c.MaxRemembered, 1024)
	return c
}

func def[T int | int64 | uint8](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Stats counts what a Machine has seen. The numbers only grow.
type Stats struct {
	// Received counts datagrams; Malformed, those that are no CM messages; Unsupported, those of a kind
	// that is not done (SIDR, path migration).
	Received, Malformed, Unsupported uint64
	// Unmatched counts messages that belong to no connection, or not in its state; Duplicates, repeated
	// REQ, REP and DREQ.
	Unmatched, Duplicates uint64
	// Sent counts messages, repetitions included; Retransmits, the repetitions for want of an answer.
	Sent, Retransmits uint64
	// Refused counts requests that were rejected with another reason than the consumer's; Overflow, those dropped for a bound of
	// half-open requests.
	Refused, Overflow uint64
	// Timeouts counts handshakes and disconnects that got no answer; Stale, connections that the peer had lost.
	Timeouts, Stale uint64
}
