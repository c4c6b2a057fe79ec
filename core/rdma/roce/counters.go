package roce

import (
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// count is the number of a counter of the packet path. The owner of a CQ counts in plain numbers and
// publishes them now and then.
type count int

const (
	cntDatagrams count = iota // received, coalesced ones counted once
	cntPackets                // received RoCE packets
	cntBytes
	cntTruncated
	cntUnknownQP
	cntBadPeer
	cntBadPKey
	cntBadICRC
	cntNotConnected
	cntCongestion
	cntReceiveCalls
	cntSentDatagrams // segmented sends counted once
	cntSentPackets
	cntSentBytes
	cntSendCalls
	cntNoRoom
	cntTooLong
	cntSendErrors
	cntSocketDrops
	cntParse  // first of wire.NumParseErrors
	numCounts = cntParse + count(wire.NumParseErrors)
)

var countNames = [numCounts]string{
	cntDatagrams: "rx_datagrams", cntPackets: "rx_packets", cntBytes: "rx_bytes", cntTruncated: "rx_truncated",
	cntUnknownQP: "rx_unknown_qp", cntBadPeer: "rx_wrong_peer", cntBadPKey: "rx_bad_pkey", cntBadICRC: "rx_bad_icrc",
	cntNotConnected: "rx_not_connected", cntCongestion: "rx_congestion_notices", cntReceiveCalls: "rx_calls",
	cntSentDatagrams: "tx_datagrams", cntSentPackets: "tx_packets", cntSentBytes: "tx_bytes", cntSendCalls: "tx_calls",
	cntNoRoom: "tx_no_room", cntTooLong: "tx_too_long", cntSendErrors: "tx_errors", cntSocketDrops: "rx_socket_drops",
	cntParse + count(wire.ErrShort):             "rx_bad_short",
	cntParse + count(wire.ErrLong):              "rx_bad_long",
	cntParse + count(wire.ErrOpcode):            "rx_bad_opcode",
	cntParse + count(wire.ErrVersion):           "rx_bad_version",
	cntParse + count(wire.ErrAlign):             "rx_bad_align",
	cntParse + count(wire.ErrPad):               "rx_bad_pad",
	cntParse + count(wire.ErrUnexpectedPayload): "rx_bad_unexpected_payload",
	cntParse + count(wire.ErrPayloadSize):       "rx_bad_payload_size",
}

// rcNames are the counters of rc.Stats, in the order of rcValues.
var rcNames = [...]string{"rc_packets_in", "rc_packets_out", "rc_duplicates", "rc_out_of_order", "rc_held", "rc_bad_packets",
	"rc_naks_sent", "rc_naks_received", "rc_rnr_sent", "rc_rnr_received", "rc_retransmits", "rc_read_restarts",
	"rc_timeouts", "rc_probes", "rc_acks", "rc_keepalives"}

func rcValues(s *rc.Stats) [len(rcNames)]uint64 {
	return [...]uint64{s.PacketsIn, s.PacketsOut, s.Duplicates, s.OutOfOrder, s.Held, s.BadPackets,
		s.NaksSent, s.NaksReceived, s.RNRSent, s.RNRReceived, s.Retransmits, s.ReadRestarts,
		s.Timeouts, s.Probes, s.Acks, s.KeepAlives}
}

// addCM adds the counters of an endpoint's connection manager to m.
func addCM(m map[string]uint64, s cm.Stats) {
	m["cm_received"] += s.Received
	m["cm_malformed"] += s.Malformed
	m["cm_unsupported"] += s.Unsupported
	m["cm_unmatched"] += s.Unmatched
	m["cm_duplicates"] += s.Duplicates
	m["cm_sent"] += s.Sent
	m["cm_retransmits"] += s.Retransmits
	m["cm_refused"] += s.Refused
	m["cm_overflow"] += s.Overflow
	m["cm_timeouts"] += s.Timeouts
	m["cm_stale"] += s.Stale
}

// counters are those of one CQ.
type counters struct {
	n  [numCounts]uint64
	rc rc.Stats

	nextPublish int64
	public      [int(numCounts) + len(rcNames)]atomic.Uint64
}

func (c *counters) add(k count, n int) { c.n[k] += uint64(n) }

const publishEvery = 20_000_000

// publish shows the counters to others, if they have not been shown for a while.
func (c *counters) publish(now int64) {
	if now >= c.nextPublish {
		c.publishNow(now)
	}
}

func (c *counters) publishNow(now int64) {
	c.nextPublish = now + publishEvery
	for i, v := range c.n {
		c.show(i, v)
	}
	for i, v := range rcValues(&c.rc) {
		c.show(int(numCounts)+i, v)
	}
}

// show stores a value that has changed; storing costs more than looking.
func (c *counters) show(i int, v uint64) {
	if c.public[i].Load() != v {
		c.public[i].Store(v)
	}
}

// addTo adds what was published to m.
func (c *counters) addTo(m map[string]uint64) {
	for i, name := range countNames {
		m[name] += c.public[i].Load()
	}
	for i, name := range rcNames {
		m[name] += c.public[int(numCounts)+i].Load()
	}
}
