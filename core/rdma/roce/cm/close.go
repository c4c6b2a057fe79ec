package cm

import "github.com/gosrpt/gosrpt/core/ib"

// end tells the user that the connection is over.
func (m *Machine) end(c *conn, cause Cause) {
	m.act(Action{Kind: ActionEnded, Conn: c.handle, Peer: c.peer, Cause: cause})
}

// release tells the user that the connection is forgotten, and forgets it.
func (m *Machine) release(c *conn) {
	m.act(Action{Kind: ActionReleased, Conn: c.handle, Peer: c.peer})
	m.forget(c)
}

// enterTimewait keeps the connection until late messages have died out (IBTA 12.9).
func (m *Machine) enterTimewait(c *conn) {
	c.msg = nil
	m.become(c, StateTimewait)
	m.arm(c, m.now+c.timewait)
	if old := m.excess(&m.waiting); old != nil {
		m.release(old)
	}
}

func (m *Machine) userDisconnect(h Handle) error {
	c, err := m.user(h)
	if err != nil {
		return err
	}
	switch c.state {
	case StateReqRcvd:
		return m.refuse(c, &REJFields{Reason: ReasonConsumer}, CauseLocal)
	case StateReqSent:
		m.reject(c, &REJFields{Reason: ReasonTimeout})
		m.end(c, CauseLocal)
		m.release(c)
	case StateRepSent:
		m.reject(c, &REJFields{Reason: ReasonConsumer})
		m.end(c, CauseLocal)
		m.release(c)
	case StateEstablished:
		c.msg = AppendDREQ(nil, m.newTID(), c.local, c.remote, c.peerQPN)
		c.limit = m.now + m.cfg.HandshakeLimit
		m.become(c, StateDreqSent)
		m.start(c, m.cfg.DisconnectRetries, m.cfg.MaxRetryInterval)
	case StateNone, StateDreqSent, StateTimewait, StateRefused:
		// Already under way.
	}
	return nil
}

// reject refuses what the connection waits for.
func (m *Machine) reject(c *conn, f *REJFields) {
	f.LocalCommID, f.RemoteCommID, f.Refused = c.local, c.remote, RefusedOther
	if c.state == StateReqSent {
		f.Refused = RefusedREQ
	}
	if f.Reason == ReasonTimeout {
		f.ARI = m.guidARI()
	}
	mad, _ := f.Append(nil, c.tid)
	m.send(c.handle, c.peer, mad)
}

// onDREQ answers with DREP at once, known connection or not, and ends the connection.
func (m *Machine) onDREQ(peer ib.GID, msg Message) {
	r := msg.DREQ()
	c := m.find(peer, msg)
	if c == nil {
		m.stats.Unmatched++
		m.send(0, peer, AppendDREP(nil, msg.TID(), r.RemoteCommID(), r.LocalCommID()))
		return
	}
	if r.RemoteQPN() != c.localQPN || c.state == StateReqRcvd || c.state == StateRefused {
		m.stats.Unmatched++
		return
	}
	drep := AppendDREP(nil, msg.TID(), c.local, c.remote)
	switch c.state {
	case StateTimewait:
		m.stats.Duplicates++
		m.send(c.handle, peer, drep)
		return
	case StateRepSent:
		// The peer had it established; its RTU was lost.
		m.established(c)
	}
	cause := CausePeer
	if c.state == StateDreqSent {
		cause = CauseLocal
	}
	m.send(c.handle, peer, drep)
	m.end(c, cause)
	m.enterTimewait(c)
}

func (m *Machine) onDREP(peer ib.GID, msg Message) {
	c := m.find(peer, msg)
	if c == nil || c.state != StateDreqSent {
		m.stats.Unmatched++
		return
	}
	m.end(c, CauseLocal)
	m.enterTimewait(c)
}

// onREJ ends a connection in whatever state (IBTA 12.9).
func (m *Machine) onREJ(peer ib.GID, msg Message) {
	r := msg.REJ()
	c := m.rejected(peer, r)
	if c == nil || c.state == StateTimewait || c.state == StateRefused {
		m.stats.Unmatched++
		return
	}
	if c.state == StateDreqSent {
		m.end(c, CauseLocal)
		m.enterTimewait(c)
		return
	}
	m.act(Action{Kind: ActionEnded, Conn: c.handle, Peer: peer, Cause: CauseRejected, Reason: r.Reason(),
		Private: append([]byte(nil), r.Private()...)})
	// After "stale connection" the peer still holds the QPN in timewait: so do we.
	if c.state == StateEstablished || r.Reason() == ReasonStaleConnection {
		m.enterTimewait(c)
		return
	}
	m.release(c)
}

// rejected finds the connection of a REJ. One that waits for REP knows no id of the peer; a peer that
// gives up waiting for REP knows none of ours.
func (m *Machine) rejected(peer ib.GID, r REJ) *conn {
	c := m.byLocal[r.RemoteCommID()]
	if c != nil && c.peer == peer && (c.remote == r.LocalCommID() || c.state == StateReqSent) {
		return c
	}
	if c = m.byRemote[remoteID{peer, r.LocalCommID()}]; c != nil && c.passive && r.Reason() == ReasonTimeout && c.state.halfOpen() {
		return c
	}
	return nil
}
