package rc

import "github.com/gosrpt/gosrpt/core/ib"

// Millisecond is the unit most of the configuration is thought in; all times are nanoseconds.
const Millisecond = int64(1e6)

// Forever as a retry limit means that the machine never gives up.
const Forever = -1

// Limits of a Machine.
const (
	// MaxReads is the most RDMA READs outstanding in either direction.
	MaxReads = 16
	// MaxReadChunk is the most bytes that one READ request asks for.
	MaxReadChunk = 32 << 10
	// MaxWorkLength is the longest single work request in bytes; a message may not take more than
	// half of the PSN space at the smallest MTU.
	MaxWorkLength = 1 << 30
	holdSlots     = 256
	minWindow     = 8
)

// Config is what a machine is made with. Zero values take the defaults.
type Config struct {
	// SendDepth and RecvDepth are the most work requests not yet polled; MaxSGE is the most
	// segments each may have. All must be positive.
	SendDepth, RecvDepth, MaxSGE int
	// Shared is where receives are taken from, by machines of one goroutine; nil means PostRecv's own. With it, RecvDepth bounds those that
	// were taken and not yet polled; a message beyond it waits.
	Shared *Shared
	// Memory answers for the peer's RDMA READs and WRITEs; nil refuses them all.
	Memory Memory
	// Pool lends buffers to packets that overtook others; nil means that none is held.
	Pool *Pool
	// ReadChunk is the most bytes that one READ request asks for; a multiple of 4096, at most
	// MaxReadChunk, the default.
	ReadChunk uint32
	// WindowPackets and WindowBytes bound what is unacknowledged. Defaults 128 and 256 KiB.
	WindowPackets, WindowBytes uint32
	// MinTimeout and MaxTimeout bound the retry timer, before and after back-off. Defaults 2 s, 4 s.
	MinTimeout, MaxTimeout int64
	// Probe is the least wait for the early repetition on lossy links. Default 100 ms.
	Probe int64
	// Hold is how long overtaking packets, and SENDs without a receive, wait. Default 15 ms.
	Hold int64
	// RetryLimit and RNRLimit are how often in a row the timer, or an RNR NAK, may make the
	// machine repeat the same packet before the queue pair fails; Forever, or 0 for 7.
	RetryLimit, RNRLimit int
	// RNRTimer is the code of the pause that our RNR NAKs ask for, 1..31. Default 14, 1.28 ms.
	RNRTimer uint8
	// Stats is where the machine counts; nil means that it has counters of its own. The machines that
	// share one also share a goroutine.
	Stats *Stats
	// KeepAlive is how long the peer may be silent before an empty RDMA WRITE asks whether it is
	// still there; 0 turns it off.
	KeepAlive int64
}

func (c Config) withDefaults() Config {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MinTimeout, 2000*Millisecond)
	def(&c.MaxTimeout, 4000*Millisecond)
	def(&c.Probe, 100*Millisecond)
	def(&c.Hold, 15*Millisecond)
	c.MaxTimeout = max(c.MaxTimeout, c.MinTimeout)
	if c.ReadChunk == 0 || c.ReadChunk > MaxReadChunk || c.ReadChunk%4096 != 0 {
		c.ReadChunk = MaxReadChunk
	}
	if c.WindowPackets == 0 {
		c.WindowPackets = 128
	}
	if c.WindowBytes == 0 {
		c.WindowBytes = 256 << 10
	}
	if c.RetryLimit == 0 {
		c.RetryLimit = 7
	}
	if c.RNRLimit == 0 {
		c.RNRLimit = 7
	}
	if c.Stats == nil {
		c.Stats = new(Stats)
	}
	if c.RNRTimer == 0 || c.RNRTimer > 31 {
		c.RNRTimer = 14
	}
	return c
}

// Params is what the connection exchange settles.
type Params struct {
	// MTU is the path MTU in bytes: 256, 512, 1024, 2048 or 4096.
	MTU uint32
	// SendPSN is the first PSN we send, RecvPSN the first that we expect.
	SendPSN, RecvPSN ib.PSN
	// ReadsOut is how many READs the peer lets us have outstanding; 0 forbids them.
	ReadsOut uint8
	// ReadsIn is how many READs we let the peer have outstanding.
	ReadsIn uint8
	// FlowControl tells that the peer sends end-to-end credits (IBTA vol 1, 9.7.7.2).
	FlowControl bool
	// Budget is the room for READ responses, shared by the queue pairs of a socket; nil is no limit.
	Budget *Budget
	// ReadCost is the room in Budget that one response packet takes beyond its payload, in bytes.
	ReadCost int64
}

// Memory resolves what a peer names by r_key.
type Memory interface {
	// Writable returns the n bytes at va, or false unless all of them may be written.
	Writable(rkey uint32, va uint64, n uint32) ([]byte, bool)
	// Readable returns the n bytes at va, or false unless all of them may be read.
	Readable(rkey uint32, va uint64, n uint32) ([]byte, bool)
}
