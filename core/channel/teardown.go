package channel

import "github.com/gosrpt/gosrpt/core/srp"

func (m *Machine) established() {
	if m.state == Connecting {
		m.state = Live
	}
}

// connectionEvent handles the events that can only end the channel.
func (m *Machine) connectionEvent(ev *Event) {
	switch {
	case ev.Kind == EvEstablishTimeout && m.state == Connecting, ev.Kind == EvConnectFailed && !m.quiet:
		m.shut(m.lost(), nil)
		m.destroy()
	case ev.Kind == EvDrainTimeout && m.state >= LoggingOut && !m.quiet:
		m.destroy()
	case ev.Kind == EvDisconnected && !m.quiet:
		m.shut(CausePeer, nil)
		m.quiesce()
	case ev.Kind == EvTransportError && m.state < Draining:
		m.ended(Failed)
	case ev.Kind == EvClose && m.state <= Live && ev.Cause >= CauseReplaced:
		m.logout(ev.Cause, nil, ev.Cause.logout())
	case ev.Kind == EvLogoutSent && m.state == LoggingOut:
		m.disconnect()
	default:
		m.stats.Ignored++
	}
}

// lost returns the cause of a connection that turns out not to be.
func (m *Machine) lost() Cause {
	if m.state == Connecting {
		return CauseNotEstablished
	}
	return CausePeer
}

// ended takes note of how work ended: what was not done ends the channel.
func (m *Machine) ended(o Outcome) {
	switch o {
	case Done:
		return
	case Flushed:
		m.shut(CausePeer, nil)
	default:
		m.shut(CauseTransport, nil)
	}
	m.disconnect()
}

// logout ends the channel and tells the initiator why, if it can hear us.
func (m *Machine) logout(c Cause, err error, reason srp.LogoutReason) {
	was := m.state
	m.shut(c, err)
	switch was {
	case Live:
		m.emit(Action{Kind: ActLogout, Reason: reason, SolNot: m.cfg.SolNot && m.cfg.Notify&srp.LoginLogoutSolNot != 0})
	case Connecting:
		m.disconnect()
	}
}

// shut stops intake and cuts every command short. The first cause counts.
func (m *Machine) shut(c Cause, err error) {
	if m.state > Live {
		return
	}
	m.state = LoggingOut
	m.cause, m.err = c, err
	m.unanswered -= uint32(m.pending.n)
	m.pending.clear()
	for i := range m.slots {
		if s := &m.slots[i]; s.state != free && s.isCmd {
			m.cut(s, fateVanish, 0)
		}
	}
}

// disconnect puts the QP into error, once.
func (m *Machine) disconnect() {
	if m.state >= Draining {
		return
	}
	m.state = Draining
	m.emit(Action{Kind: ActDisconnect})
}

func (m *Machine) destroy() {
	m.emit(Action{Kind: ActDestroy})
	m.quiesce()
}

// quiesce takes note that no work is or will be outstanding: what waited for it
// goes on.
func (m *Machine) quiesce() {
	m.state, m.quiet, m.posted = Draining, true, 0
	for i := range m.slots {
		switch s := &m.slots[i]; s.state {
		case responding:
			m.release(s)
		case fetching, fetchingTable:
			s.state = executing
			m.hurry(s)
		}
	}
}
