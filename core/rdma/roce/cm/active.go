package cm

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

func (e *Connect) check(m *Machine) error {
	switch {
	case e.Conn == 0 || e.Conn > m.last:
		return fmt.Errorf("connect: handle %d is not from NewHandle: %w", e.Conn, ErrInvalid)
	case m.conns[e.Conn] != nil:
		return fmt.Errorf("connect: handle %d: %w", e.Conn, ErrInUse)
	case e.QPN <= ib.QPGeneralServices || e.QPN > ib.QPNMask:
		return fmt.Errorf("connect: queue pair number %#x: %w", uint32(e.QPN), ErrInvalid)
	case !e.PathMTU.Valid():
		return fmt.Errorf("connect: path %v: %w", e.PathMTU, ErrInvalid)
	case len(e.Private) > REQPrivateSize:
		return fmt.Errorf("connect: %w: %d bytes, there is room for %d", ErrPrivate, len(e.Private), REQPrivateSize)
	}
	return nil
}

func (m *Machine) connect(e *Connect) error {
	if err := e.check(m); err != nil {
		return err
	}
	c := m.newConn(e.Conn, e.Peer)
	c.localQPN, c.tid = e.QPN, m.newTID()
	c.timewait = min(Timeout(e.AckTimeout), m.cfg.MaxTimewait)
	limit := e.Limit
	def(&limit, m.cfg.HandshakeLimit)
	c.limit = m.now + limit
	f := REQFields{
		LocalCommID: c.local, ServiceID: e.ServiceID, CAGUID: m.cfg.CAGUID, LocalQPN: e.QPN,
		ResponderResources: e.ResponderResources, InitiatorDepth: e.InitiatorDepth,
		RemoteResponseTimeout: m.cfg.ResponseTimeout, LocalResponseTimeout: m.cfg.ResponseTimeout,
		FlowControl: true, StartingPSN: e.RecvPSN, RetryCount: e.RetryCount, PKey: e.PKey, PathMTU: e.PathMTU,
		RNRRetryCount: e.RNRRetryCount, MaxCMRetries: uint8(min(m.cfg.RequestRetries, 15)),
		LocalGID: e.Local, RemoteGID: e.Peer, HopLimit: 64, AckTimeout: e.AckTimeout, Private: e.Private,
	}
	c.msg, _ = f.Append(nil, c.tid)
	m.become(c, StateReqSent)
	m.start(c, m.cfg.RequestRetries, m.cfg.MaxRetryInterval)
	return nil
}

// onREP completes the active side's handshake (IBTA 12.9).
func (m *Machine) onREP(peer ib.GID, msg Message) {
	r := msg.REP()
	c := m.byLocal[r.RemoteCommID()]
	if c == nil || c.peer != peer {
		m.stats.Unmatched++
		m.rejectREP(peer, msg, ReasonInvalidCommID)
		return
	}
	switch {
	case c.state == StateReqSent:
		m.acceptREP(c, msg)
	case c.state == StateEstablished && !c.passive && c.remote == r.LocalCommID():
		// The RTU was lost.
		m.stats.Duplicates++
		m.send(c.handle, peer, AppendRTU(nil, c.tid, c.local, c.remote))
	default:
		m.stats.Unmatched++
	}
}

func (m *Machine) acceptREP(c *conn, msg Message) {
	r := msg.REP()
	if r.LocalQPN() <= ib.QPGeneralServices {
		m.stats.Malformed++
		return
	}
	if old := m.byQP[remoteQP{c.peer, r.LocalQPN()}]; old != nil {
		// The peer gives out a QP again that an older connection still has here: it has lost that one. The new one may be tried again.
		m.rejectREP(c.peer, msg, ReasonStaleConnection)
		m.stale(old)
		m.end(c, CauseStale)
		m.release(c)
		return
	}
	c.remote, c.peerQPN = r.LocalCommID(), r.LocalQPN()
	if m.byRemote[c.remoteID()] == nil {
		m.byRemote[c.remoteID()] = c
	}
	c.msg = nil
	m.disarm(c)
	m.become(c, StateEstablished)
	m.act(Action{Kind: ActionEstablished, Conn: c.handle, Peer: c.peer, Reply: newReply(r)})
	m.send(c.handle, c.peer, AppendRTU(nil, c.tid, c.local, c.remote))
}

// rejectREP refuses a reply that belongs to no connection.
func (m *Machine) rejectREP(peer ib.GID, msg Message, reason Reason) {
	r := msg.REP()
	f := REJFields{LocalCommID: r.RemoteCommID(), RemoteCommID: r.LocalCommID(), Refused: RefusedREP, Reason: reason}
	mad, _ := f.Append(nil, msg.TID())
	m.send(0, peer, mad)
}

// onMRA gives the peer the time it asks for, within the bounds of the handshake (IBTA 12.6.6).
func (m *Machine) onMRA(peer ib.GID, msg Message) {
	r := msg.MRA()
	c := m.byLocal[r.RemoteCommID()]
	if c == nil || c.peer != peer || !c.waitsFor(r.Received(), r.LocalCommID()) {
		m.stats.Unmatched++
		return
	}
	m.arm(c, min(m.now+Timeout(r.ServiceTimeout())+c.interval, c.limit))
}

// waitsFor tells whether the connection waits for the answer to the message that an MRA of the peer's id is about.
func (c *conn) waitsFor(about Refused, sender uint32) bool {
	switch c.state {
	case StateReqSent:
		return about == RefusedREQ
	case StateRepSent:
		return about == RefusedREP && sender == c.remote
	}
	return false
}
