package roce

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// loseOneIn makes a socket drop one datagram in n, at random, as a bad link would.
func loseOneIn(t testing.TB, n uint32) func(fd int) {
	const random = 0xFFFFF000 + 56 // SKF_AD_OFF + SKF_AD_RANDOM
	return func(fd int) {
		code := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: random},
			{Code: unix.BPF_ALU | bpfMod | unix.BPF_K, K: n},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0xFFFFFFFF},
		}
		prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
			t.Errorf("SO_ATTACH_FILTER: %v", err)
		}
	}
}

const bpfMod = 0x90

// lossy loses one datagram in n on both sides, and does not wait long before it repeats.
func lossy(t testing.TB, n uint32) func(*Config) {
	return func(c *Config) {
		c.onSocket = loseOneIn(t, n)
		c.MinTimeout, c.MaxTimeout = 100*time.Millisecond, time.Second
	}
}

// TestProviderOnALossyLink: the transport hides loss, so every promise holds on a link that loses
// packets.
func TestProviderOnALossyLink(t *testing.T) {
	noGSO := func(c *Config) { c.NoGSO, c.NoGRO = true, true }
	rdmatest.TestProvider(t, loopbackHarness("127.0.0.1", "127.0.0.2", "127.0.0.77", lossy(t, 100), noGSO))
}

func TestTransfersSurviveHeavyLoss(t *testing.T) {
	for _, tc := range []struct {
		name   string
		n      uint32
		change func(*Config)
	}{
		{"5% of the runs of segments", 20, func(*Config) {}},
		{"10% of the packets", 10, func(c *Config) { c.NoGSO, c.NoGRO = true, true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leaktest.Check(t)
			p := newPair(t, lossy(t, tc.n), tc.change)
			p.transfers(t, 40, 100_000)
			if s := p.devA.Stats(); s["rc_retransmits"]+p.devB.Stats()["rc_retransmits"] == 0 {
				t.Errorf("nothing was lost: %v", s)
			}
		})
	}
}
