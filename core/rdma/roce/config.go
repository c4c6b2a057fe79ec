package roce

import (
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config is the configuration of a Provider. Zero values take the defaults.
type Config struct {
	// Name is the provider's name; "roce".
	Name string
	// Log is where the provider logs; nil is nowhere.
	Log hclog.Logger
	// Interfaces is the rules that select the network interfaces to use. A rule is a name or a pattern of names such as "eth*"
	// (path.Match), which takes an interface with all its addresses, or none yet; an address or a prefix such as "10.1.0.0/16", which takes
	// those addresses on whatever interface has them; or "all": every interface that is up but loopback, which is meant, too, if no rule takes
	// in. A rule that begins with "!" leaves out, whatever the others say. The order does not matter.
	Interfaces []string
	// Addrs restricts the devices to these addresses. An address that the kernel treats as local
	// without listing it, such as 127.0.0.2, belongs to the loopback interface.
	Addrs []netip.Addr
	// MaxMTU bounds the path MTU of connections that we open, in bytes; 4096.
	MaxMTU int

	// ReceiveBuffer and SendBuffer are the sizes to ask for, per socket, in bytes; 8 MiB and 4 MiB.
	// Without privilege the kernel grants less (net.core.rmem_max, wmem_max).
	ReceiveBuffer, SendBuffer int
	// NoGSO turns UDP segmentation off for sending, NoGRO coalescing for receiving. Each is also
	// turned off where the kernel or the interface refuses it.
	NoGSO, NoGRO bool

	// AckDelay is the code of the delay that we announce for our acknowledgements: 4.096 us * 2^code;
	// 16, 0.27 s. The kernel's initiator waits 2.1 s before it retransmits, and longer if the code is
	// above 18, which slow or stalling peers need.
	AckDelay uint8
	// AckTimeout is the code of the acknowledgement timeout that we announce as initiator; 19, 2.1 s.
	AckTimeout uint8
	// MaxReads is how many RDMA READs a connection may have outstanding each way, at most 16; 16.
	MaxReads uint8

	// MinTimeout is the retry timer's start, MaxTimeout its end after back-off; 2 s and 4 s. A peer in a
	// stalled virtual machine was seen to take more than a second; loss seldom needs the timer.
	MinTimeout, MaxTimeout time.Duration
	// RetryLimit is how many retries in a row without an answer end a connection; 7. With the default
	// timers that takes 30 s.
	RetryLimit int
	// KeepAlive is how long a peer may be silent before it is asked for a sign of life; 15 s. A
	// negative value turns that off. A dead peer's connection ends KeepAlive plus the time of the
	// retries after its last packet: 45 s by default.
	KeepAlive time.Duration
	// Hold is how long packets that overtook others, and SENDs that found no receive posted, wait
	// before the peer is asked to repeat; 15 ms.
	Hold time.Duration
	// Window bounds what a connection has unacknowledged, in bytes; 256 KiB.
	Window uint32
	// AddressGrace is how long an address may be missing before its connections end; 2 s. One that is taken and given again at once, or
	// an IPv6 address that the kernel takes while the link is down, costs no session so.
	AddressGrace time.Duration
	// ConnectTimeout bounds a connection attempt that names no timeout; 20 s.
	ConnectTimeout time.Duration
	// Backlog is how many requests may wait in a listener; more are answered with "no resources"; 128.
	Backlog int

	rules rules // Interfaces

	// onSocket, in tests, sees each socket of a CQ when it is made.
	onSocket func(fd int)
}

func (c Config) withDefaults() Config {
	orDefault(&c.Name, "roce")
	orDefault(&c.MaxMTU, 4096)
	orDefault(&c.ReceiveBuffer, 8<<20)
	orDefault(&c.SendBuffer, 4<<20)
	orDefault(&c.AckDelay, 16)
	orDefault(&c.AckTimeout, 19)
	orDefault(&c.MaxReads, maxReads)
	orDefault(&c.MinTimeout, 2*time.Second)
	orDefault(&c.MaxTimeout, 4*time.Second)
	orDefault(&c.RetryLimit, 7)
	orDefault(&c.KeepAlive, 15*time.Second)
	orDefault(&c.Hold, 15*time.Millisecond)
	orDefault(&c.Window, 256<<10)
	orDefault(&c.AddressGrace, 2*time.Second)
	orDefault(&c.ConnectTimeout, 20*time.Second)
	orDefault(&c.Backlog, 128)
	c.rules = parseRules(c.Interfaces)
	c.KeepAlive = max(c.KeepAlive, 0)
	c.MaxReads = min(c.MaxReads, maxReads)
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return c
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
