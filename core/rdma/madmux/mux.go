// Package madmux sorts the management datagrams of a port by class, method and transaction, for providers whose operating
// system does not do it for them.
package madmux

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// backlog is how many datagrams a port keeps for its reader.
const backlog = 128

// Mux holds the registrations of one port of a device. Its methods may be called from any goroutine; Deliver does not block.
type Mux struct {
	device string
	send   func(to rdma.MADAddr, b ib.MAD) error

	mu     sync.Mutex
	closed bool
	last   uint32
	ports  []*port
}

// New makes the mux of a device. send sends a datagram whose length has been checked; it is called without a lock, and b is its own. The transaction ids of requests count from first.
func New(device string, first uint32, send func(to rdma.MADAddr, b ib.MAD) error) *Mux {
	return &Mux{device: device, send: send, last: first}
}

func (m *Mux) fail(op string, err error) error { return &rdma.Error{Op: op, Peer: m.device, Err: err} }

// Open registers; see rdma.MADDevice. Datagrams of every version of the class are handed out.
func (m *Mux) Open(cfg rdma.MADConfig) (rdma.MADPort, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, m.fail("register for datagrams", rdma.ErrClosed)
	}
	for _, method := range cfg.Methods {
		if m.portFor(cfg.Class, method) != nil {
			return nil, m.fail("register for datagrams", rdma.ErrInUse)
		}
	}
	cfg.Methods = slices.Clone(cfg.Methods)
	m.last++
	p := &port{mux: m, cfg: cfg, id: m.last, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	m.ports = append(m.ports, p)
	return p, nil
}

// portFor is where requests go.
func (m *Mux) portFor(c ib.Class, method ib.Method) *port {
	for _, p := range m.ports {
		if p.cfg.Class == c && slices.Contains(p.cfg.Methods, method) {
			return p
		}
	}
	return nil
}

// Count is how many registrations there are.
func (m *Mux) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ports)
}

// Deliver gives a datagram, which it copies, to whom its first bytes name: a response to where its request came from, the rest
// by class and method. It returns false if nobody wants it, or the reader is late.
func (m *Mux) Deliver(from rdma.MADAddr, b []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.sort(b)
	if p == nil || len(p.queue) >= backlog || len(b) > rdma.MADBufferSize {
		return false
	}
	p.queue = append(p.queue, datagram{from, slices.Clone(b)})
	p.announce()
	return true
}

func (m *Mux) sort(b []byte) *port {
	if d, err := ib.ParseMAD(b); err == nil && d.Method().IsResponse() {
		i := slices.IndexFunc(m.ports, func(p *port) bool { return p.cfg.Class == d.Class() && p.id == uint32(d.TID()>>32) })
		if i < 0 {
			return nil
		}
		return m.ports[i]
	}
	if len(b) < 4 {
		return nil
	}
	return m.portFor(ib.Class(b[1]), ib.Method(b[3]))
}

// Close ends every registration, and there will be none after it.
func (m *Mux) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, p := range slices.Clone(m.ports) {
		p.close()
	}
}

// port is an rdma.MADPort.
type port struct {
	mux *Mux
	cfg rdma.MADConfig
	// id is the upper half of the transaction ids of its requests.
	id      uint32
	queue   []datagram // guarded by Mux.mu, as is closed
	arrived chan struct{}
	done    chan struct{}
	closed  bool
}

// datagram is one that has arrived.
type datagram struct {
	from  rdma.MADAddr
	bytes []byte
}

func (p *port) announce() {
	if len(p.queue) == 0 {
		return
	}
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// Receive waits for a datagram.
func (p *port) Receive(ctx context.Context, b []byte) (int, rdma.MADAddr, error) {
	if len(b) < rdma.MADBufferSize {
		return 0, rdma.MADAddr{}, p.mux.fail("receive datagram", rdma.ErrInvalid)
	}
	for {
		d, ok, err := p.next()
		if err != nil {
			return 0, rdma.MADAddr{}, err
		}
		if ok {
			return copy(b, d.bytes), d.from, nil
		}
		select {
		case <-p.arrived:
		case <-p.done:
		case <-ctx.Done():
			return 0, rdma.MADAddr{}, ctx.Err()
		}
	}
}

// next takes the oldest datagram, if there is one.
func (p *port) next() (d datagram, ok bool, err error) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	if p.closed {
		return d, false, p.mux.fail("receive datagram", rdma.ErrClosed)
	}
	if len(p.queue) == 0 {
		return d, false, nil
	}
	d = p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.announce()
	return d, true, nil
}

// Send sends a datagram.
func (p *port) Send(to rdma.MADAddr, b []byte) error {
	if len(b) != ib.MADSize {
		return p.mux.fail("send datagram", rdma.ErrInvalid)
	}
	p.mux.mu.Lock()
	closed := p.closed
	p.mux.mu.Unlock()
	if closed {
		return p.mux.fail("send datagram", rdma.ErrClosed)
	}
	d := ib.MAD(slices.Clone(b))
	if !d.Method().IsResponse() {
		binary.BigEndian.PutUint32(d[8:], p.id)
	}
	if err := p.mux.send(to, d); err != nil {
		return p.mux.fail("send datagram", err)
	}
	return nil
}

// Close gives the registration up.
func (p *port) Close() error {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	p.close()
	return nil
}

func (p *port) close() {
	if p.closed {
		return
	}
	p.closed, p.queue = true, nil
	close(p.done)
	p.mux.ports = slices.DeleteFunc(p.mux.ports, func(o *port) bool { return o == p })
}
