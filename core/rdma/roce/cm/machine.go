package cm

import (
	"container/list"
	"encoding/binary"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Machine is the connection manager of one local endpoint (one IP address and its QP 1). See the
// package comment. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	stats Stats
	now   int64    // of the Step in progress
	out   []Action // of the Step in progress

	listening map[uint64]bool
	last      Handle // given out last
	conns     map[Handle]*conn
	byLocal   map[uint32]*conn
	byRemote  map[remoteID]*conn // those with a known remote id
	byQP      map[remoteQP]*conn // those that are REP sent, established or DREQ sent
	timers    timers

	halfOpen     int
	halfOpenPeer map[ib.GID]int
	refused      list.List // StateRefused, oldest first
	waiting      list.List // StateTimewait, oldest first
}

// New makes a Machine. It panics if cfg.Rand is nil.
func New(cfg Config) *Machine {
	if cfg.Rand == nil {
		panic("cm: Config.Rand is nil")
	}
	return &Machine{
		cfg:          cfg.withDefaults(),
		listening:    make(map[uint64]bool),
		conns:        make(map[Handle]*conn),
		byLocal:      make(map[uint32]*conn),
		byRemote:     make(map[remoteID]*conn),
		byQP:         make(map[remoteQP]*conn),
		halfOpenPeer: make(map[ib.GID]int),
	}
}

// Listen makes the machine take requests for a service. The error wraps ErrInUse.
func (m *Machine) Listen(service uint64) error {
	if m.listening[service] {
		return fmt.Errorf("service %#016x: %w", service, ErrInUse)
	}
	m.listening[service] = true
	return nil
}

// Unlisten ends that. Requests already handed out stay.
func (m *Machine) Unlisten(service uint64) { delete(m.listening, service) }

// NewHandle returns a handle for Connect.
func (m *Machine) NewHandle() Handle {
	m.last++
	return m.last
}

// State tells the state of a connection, StateNone if there is none of that handle.
func (m *Machine) State(h Handle) State {
	if c := m.conns[h]; c != nil {
		return c.state
	}
	return StateNone
}

// Stats returns the counters.
func (m *Machine) Stats() Stats { return m.stats }

// Step handles one event and appends to out what follows from it. now is a monotonic clock in
// nanoseconds. Deadlines up to now are handled first. An error refuses a command of the user, which
// then has changed nothing, or says that what was received is no CM message; it wraps a sentinel of
// this package.
func (m *Machine) Step(now int64, ev Event, out []Action) ([]Action, error) {
	m.now, m.out = now, out
	m.tick()
	err := m.handle(ev)
	out, m.out = m.out, nil
	return out, err
}

func (m *Machine) handle(ev Event) error {
	switch e := ev.(type) {
	case Received:
		return m.received(e)
	case Traffic:
		m.traffic(e.Conn)
	case Connect:
		return m.connect(&e)
	case Accept:
		return m.accept(&e)
	case Reject:
		return m.userReject(&e)
	case Disconnect:
		return m.userDisconnect(e.Conn)
	}
	return nil
}

func (m *Machine) received(e Received) error {
	m.stats.Received++
	msg, err := ParseMessage(e.MAD)
	if err != nil {
		m.stats.Malformed++
		return err
	}
	switch msg.Attr() {
	case AttrREQ:
		m.onREQ(e.Peer, msg)
	case AttrMRA:
		m.onMRA(e.Peer, msg)
	case AttrREJ:
		m.onREJ(e.Peer, msg)
	case AttrREP:
		m.onREP(e.Peer, msg)
	case AttrRTU:
		m.onRTU(e.Peer, msg)
	case AttrDREQ:
		m.onDREQ(e.Peer, msg)
	case AttrDREP:
		m.onDREP(e.Peer, msg)
	default:
		m.stats.Unsupported++
	}
	return nil
}

// find returns the connection that a message names by both ids, or nil.
func (m *Machine) find(peer ib.GID, msg Message) *conn {
	sender, receiver := msg.ids()
	c := m.byLocal[receiver]
	if c == nil || c.peer != peer || c.remote != sender {
		return nil
	}
	return c
}

// user returns the connection of a user's command.
func (m *Machine) user(h Handle) (*conn, error) {
	c := m.conns[h]
	if c == nil || c.state == StateRefused {
		return nil, fmt.Errorf("connection %d: %w", h, ErrUnknown)
	}
	return c, nil
}

func (m *Machine) act(a Action) { m.out = append(m.out, a) }

func (m *Machine) send(h Handle, peer ib.GID, mad []byte) {
	m.stats.Sent++
	m.act(Action{Kind: ActionSend, Conn: h, Peer: peer, MAD: mad})
}

// newConn makes a connection with an id of its own.
func (m *Machine) newConn(h Handle, peer ib.GID) *conn {
	c := &conn{handle: h, peer: peer, slot: -1}
	c.local = m.cfg.Rand()
	for c.local == 0 || m.byLocal[c.local] != nil {
		c.local++
	}
	m.conns[h] = c
	m.byLocal[c.local] = c
	return c
}

// become changes the state, and keeps the tables that depend on it.
func (m *Machine) become(c *conn, s State) {
	m.countHalfOpen(c, -1)
	if c.live() && m.byQP[c.remoteQP()] == c {
		delete(m.byQP, c.remoteQP())
	}
	if l := m.kept(c.state); l != nil {
		l.Remove(c.elem)
	}
	c.state = s
	m.countHalfOpen(c, +1)
	if c.live() {
		m.byQP[c.remoteQP()] = c
	}
	if l := m.kept(s); l != nil {
		c.elem = l.PushBack(c)
	}
}

// kept is the list of the connections in s, an ended state, or nil.
func (m *Machine) kept(s State) *list.List {
	switch s {
	case StateRefused:
		return &m.refused
	case StateTimewait:
		return &m.waiting
	}
	return nil
}

// excess is the oldest connection in l if there are too many, or nil.
func (m *Machine) excess(l *list.List) *conn {
	if l.Len() <= m.cfg.MaxRemembered {
		return nil
	}
	return l.Front().Value.(*conn)
}

// live tells whether the connection holds the peer's QP.
func (c *conn) live() bool {
	return c.state.halfOpen() || c.state == StateEstablished || c.state == StateDreqSent
}

func (m *Machine) countHalfOpen(c *conn, n int) {
	if !c.state.halfOpen() {
		return
	}
	m.halfOpen += n
	m.halfOpenPeer[c.peer] += n
	if m.halfOpenPeer[c.peer] == 0 {
		delete(m.halfOpenPeer, c.peer)
	}
}

// forget removes every trace of a connection.
func (m *Machine) forget(c *conn) {
	m.disarm(c)
	m.become(c, StateNone)
	delete(m.conns, c.handle)
	delete(m.byLocal, c.local)
	if m.byRemote[c.remoteID()] == c {
		delete(m.byRemote, c.remoteID())
	}
}

// newTID makes a transaction id.
func (m *Machine) newTID() uint64 { return uint64(m.cfg.Rand())<<32 | uint64(m.cfg.Rand()) }

// guidARI is the additional reject information of a timeout: the adapter's GUID.
func (m *Machine) guidARI() []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(m.cfg.CAGUID))
}
