package rdmatest

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// madBacklog is how many datagrams a MADPort keeps for its reader.
const madBacklog = 128

var _ rdma.MADDevice = (*Device)(nil)

// madPort is an rdma.MADPort.
type madPort struct {
	dev *Device
	cfg rdma.MADConfig
	// id is the upper half of the transaction ids of its requests.
	id      uint32
	queue   []datagram
	arrived chan struct{}
	done    chan struct{}
	closed  bool
}

// datagram is one that has arrived.
type datagram struct {
	from  rdma.MADAddr
	bytes []byte
}

// OpenMAD registers for a class on port 1. Datagrams of every version of the class are handed out.
func (d *Device) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case d.closed:
		return nil, opError("register for datagrams", d.cfg.Name, rdma.ErrClosed)
	case port != 1:
		return nil, opError("register for datagrams", d.cfg.Name, rdma.ErrInvalid)
	}
	for _, m := range cfg.Methods {
		if d.madPortFor(cfg.Class, m) != nil {
			return nil, opError("register for datagrams", d.cfg.Name, rdma.ErrInUse)
		}
	}
	cfg.Methods = slices.Clone(cfg.Methods)
	d.fabric.lastMAD++
	p := &madPort{dev: d, cfg: cfg, id: d.fabric.lastMAD, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	d.madPorts = append(d.madPorts, p)
	return p, nil
}

// madPortFor is where requests go.
func (d *Device) madPortFor(c ib.Class, m ib.Method) *madPort {
	for _, p := range d.madPorts {
		if p.cfg.Class == c && slices.Contains(p.cfg.Methods, m) {
			return p
		}
	}
	return nil
}

// DeliverMAD lets a datagram arrive at the device as if from had sent it, whatever its bytes and length are.
func (d *Device) DeliverMAD(from rdma.MADAddr, b []byte) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.takeMAD(from, slices.Clone(b))
}

// takeMAD sorts a datagram by its first bytes: a response goes to where its request came from, the rest by class and
// method. What nobody wants is lost.
func (d *Device) takeMAD(from rdma.MADAddr, b []byte) {
	var p *madPort
	if m, err := ib.ParseMAD(b); err == nil && m.Method().IsResponse() {
		i := slices.IndexFunc(d.madPorts, func(p *madPort) bool {
			return p.cfg.Class == m.Class() && p.id == uint32(m.TID()>>32)
		})
		if i >= 0 {
			p = d.madPorts[i]
		}
	} else if len(b) >= 4 {
		p = d.madPortFor(ib.Class(b[1]), ib.Method(b[3]))
	}
	if p == nil || len(p.queue) >= madBacklog || len(b) > rdma.MADBufferSize {
		d.count.madsLost++
		return
	}
	d.count.madsIn++
	p.queue = append(p.queue, datagram{from, b})
	p.announce()
}

func (p *madPort) announce() {
	if len(p.queue) == 0 {
		return
	}
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// Receive waits for a datagram.
func (p *madPort) Receive(ctx context.Context, b []byte) (int, rdma.MADAddr, error) {
	if len(b) < rdma.MADBufferSize {
		return 0, rdma.MADAddr{}, opError("receive datagram", p.dev.cfg.Name, rdma.ErrInvalid)
	}
	for {
		m, ok, err := p.next()
		if err != nil {
			return 0, rdma.MADAddr{}, err
		}
		if ok {
			return copy(b, m.bytes), m.from, nil
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
func (p *madPort) next() (m datagram, ok bool, err error) {
	p.dev.fabric.mu.Lock()
	defer p.dev.fabric.unlock()
	if p.closed {
		return m, false, opError("receive datagram", p.dev.cfg.Name, rdma.ErrClosed)
	}
	if len(p.queue) == 0 {
		return m, false, nil
	}
	m = p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	p.announce()
	return m, true, nil
}

// Send sends a datagram. On the way the address is turned round, as the peer sees it.
func (p *madPort) Send(to rdma.MADAddr, b []byte) error {
	d := p.dev
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case p.closed:
		return opError("send datagram", d.cfg.Name, rdma.ErrClosed)
	case len(b) != ib.MADSize, !d.reachable(to):
		return opError("send datagram", d.cfg.Name, rdma.ErrInvalid)
	}
	m := ib.MAD(slices.Clone(b))
	if !m.Method().IsResponse() {
		binary.BigEndian.PutUint32(m[8:], p.id)
	}
	d.count.madsOut++
	peer := d.fabric.madPeer(to)
	if peer == nil || to.QPN != ib.QPGeneralServices {
		return nil
	}
	key := d.cfg.PKeys[to.PKeyIndex]
	from := rdma.MADAddr{LID: d.cfg.LID, SL: to.SL, QPN: ib.QPGeneralServices, HasGRH: to.HasGRH}
	if to.HasGRH {
		from.GRH = to.GRH
		from.GRH.GID = gidOf(d.cfg.Addrs[to.GRH.GIDIndex])
		from.GRH.GIDIndex = uint8(peer.gidIndex(to.GRH.GID))
	}
	d.fabric.message(d, peer, Datagrams, func() {
		i := slices.IndexFunc(peer.cfg.PKeys, key.Matches)
		if i < 0 {
			peer.count.madsLost++
			return
		}
		from.PKeyIndex = uint16(i)
		peer.takeMAD(from, m)
	})
	return nil
}

// reachable tells whether an address is complete for the device's kind of link, and names entries of its tables.
func (d *Device) reachable(to rdma.MADAddr) bool {
	return int(to.PKeyIndex) < len(d.cfg.PKeys) &&
		(to.HasGRH || d.cfg.LID != 0 && to.LID != 0) &&
		(!to.HasGRH || int(to.GRH.GIDIndex) < len(d.cfg.Addrs))
}

// madPeer finds the open device that an address names: by GID if it has one, else by LID.
func (f *Fabric) madPeer(to rdma.MADAddr) *Device {
	for _, d := range f.devices {
		if d.closed {
			continue
		}
		if to.HasGRH && d.gidIndex(to.GRH.GID) >= 0 || !to.HasGRH && d.cfg.LID == to.LID {
			return d
		}
	}
	return nil
}

// gidIndex is the place of a GID in the port's table, or -1.
func (d *Device) gidIndex(g ib.GID) int {
	for i, a := range d.cfg.Addrs {
		if gidOf(a) == g {
			return i
		}
	}
	return -1
}

// Close gives the registration up.
func (p *madPort) Close() error {
	p.dev.fabric.mu.Lock()
	defer p.dev.fabric.unlock()
	p.close()
	return nil
}

func (p *madPort) close() {
	if p.closed {
		return
	}
	p.closed, p.queue = true, nil
	close(p.done)
	p.dev.madPorts = slices.DeleteFunc(p.dev.madPorts, func(o *madPort) bool { return o == p })
}
