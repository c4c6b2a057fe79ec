package cm

import (
	"container/list"

	"github.com/gosrpt/gosrpt/core/ib"
)

// State is the state of a connection.
type State uint8

// The states (IBTA 12.9, without those that pass within a Step).
const (
	// StateNone: the machine knows no such connection.
	StateNone State = iota
	// StateReqSent: active, waiting for REP.
	StateReqSent
	// StateReqRcvd: passive, waiting for the user.
	StateReqRcvd
	// StateRepSent: passive, waiting for RTU or traffic.
	StateRepSent
	// StateEstablished: both sides agree.
	StateEstablished
	// StateDreqSent: waiting for DREP.
	StateDreqSent
	// StateTimewait: over; kept so that late messages get the right answer and the QPN is not used again too soon.
	StateTimewait
	// StateRefused: a request that was refused; kept to repeat the REJ. The user knows nothing of it.
	StateRefused
)

// String names the state.
func (s State) String() string {
	names := [...]string{"none", "REQ sent", "REQ received", "REP sent", "established", "DREQ sent", "timewait", "refused"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown state"
}

func (s State) halfOpen() bool { return s == StateReqRcvd || s == StateRepSent }

// remoteID is how a peer's connection is known before it knows ours.
type remoteID struct {
	peer ib.GID
	id   uint32
}

type remoteQP struct {
	peer ib.GID
	qpn  ib.QPN
}

type conn struct {
	handle  Handle
	state   State
	passive bool

	peer              ib.GID
	local, remote     uint32 // communication ids; remote is 0 until known
	localQPN, peerQPN ib.QPN
	peerPSN           ib.PSN // starting PSN of the peer's REQ; with TID and QPN it tells a repeated REQ from another
	tid               uint64 // of the REQ
	timewait          int64  // how long to stay in StateTimewait

	msg      []byte // what is repeated: on timeout, or to a duplicate
	interval int64  // before the next repetition
	most     int64  // longest interval
	retries  int    // repetitions left
	limit    int64  // end of the handshake

	due  int64         // deadline
	slot int           // in Machine.timers, -1 if none
	elem *list.Element // in Machine.refused or Machine.waiting, nil if in none
}

func (c *conn) remoteID() remoteID { return remoteID{c.peer, c.remote} }
func (c *conn) remoteQP() remoteQP { return remoteQP{c.peer, c.peerQPN} }

// same tells whether a REQ of the connection's communication id is a repetition of its REQ.
func (c *conn) same(m Message) bool {
	r := m.REQ()
	return c.passive && m.TID() == c.tid && r.LocalQPN() == c.peerQPN && r.StartingPSN() == c.peerPSN
}
