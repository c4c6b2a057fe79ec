package cm

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// onREQ takes a request, or repeats the answer to it (IBTA 12.9).
func (m *Machine) onREQ(peer ib.GID, msg Message) {
	r := msg.REQ()
	if c := m.byRemote[remoteID{peer, r.LocalCommID()}]; c != nil {
		if !m.repeatedREQ(c, msg) {
			return
		}
	}
	if reason := m.refusal(r); reason != 0 {
		m.stats.Refused++
		m.rejectREQ(peer, msg, reason)
		return
	}
	if c := m.byQP[remoteQP{peer, r.LocalQPN()}]; c != nil {
		// The peer uses the queue pair anew, so it has lost the old connection. IBTA 12.9.8.3.1 lets the
		// request be refused as stale; taking it spares a peer that restarts a failed login.
		m.stale(c)
	}
	if m.halfOpen >= m.cfg.MaxHalfOpen || m.halfOpenPeer[peer] >= m.cfg.MaxHalfOpenPerPeer {
		m.stats.Overflow++
		return
	}
	m.newRequest(peer, msg)
}

// refusal tells why a request can never be served, 0 if it can.
func (m *Machine) refusal(r REQ) Reason {
	switch {
	case r.TransportType() != 0 || r.ExtendedTransport() != 0:
		return ReasonTransportType
	case !m.listening[r.ServiceID()]:
		return ReasonInvalidService
	case !r.PathMTU().Valid():
		return ReasonInvalidMTU
	case r.LocalQPN() <= ib.QPGeneralServices:
		return ReasonUnsupported
	}
	return 0
}

func (m *Machine) newRequest(peer ib.GID, msg Message) {
	r := msg.REQ()
	c := m.newConn(m.NewHandle(), peer)
	c.passive = true
	c.remote, c.peerQPN, c.peerPSN, c.tid = r.LocalCommID(), r.LocalQPN(), r.StartingPSN(), msg.TID()
	c.timewait = min(Timeout(r.AckTimeout()), m.cfg.MaxTimewait)
	c.most = min(Timeout(r.LocalResponseTimeout()), m.cfg.MaxRetryInterval)
	c.retries = min(int(r.MaxCMRetries()), m.cfg.ReplyRetries)
	c.limit = m.now + m.cfg.HandshakeLimit
	m.byRemote[c.remoteID()] = c
	m.become(c, StateReqRcvd)
	m.arm(c, min(m.now+m.cfg.PendingLimit, c.limit))
	m.act(Action{Kind: ActionRequest, Conn: c.handle, Peer: peer, Request: newRequest(r)})
}

// repeatedREQ handles a REQ with the communication id of c. It returns true if the REQ is to be
// taken as new.
func (m *Machine) repeatedREQ(c *conn, msg Message) (isNew bool) {
	if !c.same(msg) {
		if c.state == StateRefused {
			m.forget(c)
			return true
		}
		m.rejectREQ(c.peer, msg, ReasonStaleConnection)
		m.stale(c)
		return false
	}
	m.stats.Duplicates++
	switch c.state {
	case StateReqRcvd:
		left := max(c.due-m.now, 0)
		m.send(c.handle, c.peer, AppendMRA(nil, c.tid, c.local, c.remote, RefusedREQ, TimeoutCode(left)))
	case StateRepSent:
		m.send(c.handle, c.peer, c.msg)
	case StateRefused:
		m.send(0, c.peer, c.msg)
	case StateTimewait:
		m.rejectREQ(c.peer, msg, ReasonStaleConnection)
	case StateNone, StateReqSent, StateEstablished, StateDreqSent:
		// The peer has had the REP; a REJ now would end what it believes in.
	}
	return false
}

// stale ends a connection that the peer no longer has.
func (m *Machine) stale(c *conn) {
	m.stats.Stale++
	switch c.state {
	case StateReqRcvd, StateRepSent, StateReqSent:
		m.end(c, CauseStale)
		m.release(c)
	case StateEstablished:
		m.end(c, CauseStale)
		m.send(c.handle, c.peer, AppendDREQ(nil, m.newTID(), c.local, c.remote, c.peerQPN))
		m.enterTimewait(c)
	case StateDreqSent:
		m.end(c, CauseLocal)
		m.enterTimewait(c)
	case StateNone, StateTimewait, StateRefused:
	}
}

// rejectREQ refuses a request of which nothing is kept.
func (m *Machine) rejectREQ(peer ib.GID, msg Message, reason Reason) {
	f := REJFields{RemoteCommID: msg.REQ().LocalCommID(), Refused: RefusedREQ, Reason: reason}
	mad, _ := f.Append(nil, msg.TID())
	m.send(0, peer, mad)
}

func (m *Machine) accept(a *Accept) error {
	c, err := m.user(a.Conn)
	if err != nil {
		return err
	}
	if c.state != StateReqRcvd {
		return fmt.Errorf("accept: connection %d is in state %q: %w", a.Conn, c.state, ErrState)
	}
	if a.QPN <= ib.QPGeneralServices || a.QPN > ib.QPNMask {
		return fmt.Errorf("accept: queue pair number %#x: %w", uint32(a.QPN), ErrInvalid)
	}
	f := REPFields{
		LocalCommID: c.local, RemoteCommID: c.remote, LocalQPN: a.QPN, StartingPSN: a.RecvPSN,
		ResponderResources: a.ResponderResources, InitiatorDepth: a.InitiatorDepth, TargetAckDelay: a.AckDelay,
		FlowControl: a.FlowControl, SRQ: a.SRQ, RNRRetryCount: a.RNRRetryCount, CAGUID: m.cfg.CAGUID, Private: a.Private,
	}
	mad, err := f.Append(nil, c.tid)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	c.msg, c.localQPN = mad, a.QPN
	m.become(c, StateRepSent)
	m.start(c, c.retries, c.most)
	return nil
}

func (m *Machine) userReject(r *Reject) error {
	c, err := m.user(r.Conn)
	if err != nil {
		return err
	}
	if c.state != StateReqRcvd {
		return fmt.Errorf("reject: connection %d is in state %q: %w", r.Conn, c.state, ErrState)
	}
	if r.Reason != ReasonConsumer {
		m.stats.Refused++
	}
	return m.refuse(c, &REJFields{Reason: r.Reason, ARI: r.ARI, Private: r.Private}, CauseLocal)
}

// refuse answers the request c with a REJ and remembers it for duplicates.
func (m *Machine) refuse(c *conn, f *REJFields, cause Cause) error {
	f.LocalCommID, f.RemoteCommID, f.Refused = c.local, c.remote, RefusedREQ
	mad, err := f.Append(nil, c.tid)
	if err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	c.msg = mad
	m.send(c.handle, c.peer, mad)
	m.end(c, cause)
	m.act(Action{Kind: ActionReleased, Conn: c.handle, Peer: c.peer})
	m.become(c, StateRefused)
	m.arm(c, m.now+m.cfg.RejectMemory)
	if old := m.excess(&m.refused); old != nil {
		m.forget(old)
	}
	return nil
}

// onRTU completes the passive side's handshake, as traffic does.
func (m *Machine) onRTU(peer ib.GID, msg Message) {
	c := m.find(peer, msg)
	if c == nil || c.state != StateRepSent {
		m.stats.Unmatched++
		return
	}
	m.established(c)
}

func (m *Machine) traffic(h Handle) {
	if c := m.conns[h]; c != nil && c.state == StateRepSent {
		m.established(c)
	}
}

func (m *Machine) established(c *conn) {
	c.msg = nil
	m.disarm(c)
	m.become(c, StateEstablished)
	m.act(Action{Kind: ActionEstablished, Conn: c.handle, Peer: c.peer})
}
