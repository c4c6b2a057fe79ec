package roce

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

var _ rdma.MADDevice = (*Device)(nil)

// OpenMAD registers for a class on the device's port: its datagrams come to queue pair 1, which is at UDP port 4791 of every
// address. Connection management is the provider's own.
func (d *Device) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	const op = "register for datagrams"
	switch {
	case d.isClosed():
		return nil, d.fail(op, rdma.ErrClosed)
	case port != 1:
		return nil, d.fail(op, rdma.ErrInvalid)
	case cfg.Class == ib.ClassComm:
		return nil, d.fail(op, rdma.ErrInUse)
	}
	if err := d.open(); err != nil {
		return nil, d.fail(op, err)
	}
	return d.mads.Open(cfg)
}

// replyHops is the hop limit of an answer (IBTA vol 1, 13.5.4.4).
const replyHops = 255

// takeMAD hands out a datagram that has passed every check of its packet. The route's traffic class and flow label are not
// known: the socket does not tell. The lock is held.
func (ep *endpoint) takeMAD(peer ib.GID, qpn ib.QPN, b []byte) {
	i := -1
	if table := ep.dev.gids.Load(); table != nil {
		i = slices.Index(*table, ep.gid)
	}
	from := rdma.MADAddr{QPN: qpn, HasGRH: true, GRH: rdma.MADRoute{GID: peer, GIDIndex: uint8(i), HopLimit: replyHops}}
	if i < 0 || i > 255 || !ep.dev.mads.Deliver(from, b) {
		ep.counts.madsLost++
		return
	}
	ep.counts.madsIn++
}

// sendMAD sends from the address that the route names.
func (d *Device) sendMAD(to rdma.MADAddr, m ib.MAD) error {
	table := d.gids.Load()
	if !to.HasGRH || to.PKeyIndex != 0 || table == nil || int(to.GRH.GIDIndex) >= len(*table) {
		return rdma.ErrInvalid
	}
	ep := d.endpointOf((*table)[to.GRH.GIDIndex])
	if _, v4 := to.GRH.GID.IPv4(); ep == nil || v4 == ep.v6 {
		return rdma.ErrInvalid
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.closed {
		return rdma.ErrClosed
	}
	ep.counts.madsOut++
	ep.send(to.GRH.GID, to.QPN, m)
	return nil
}

func (d *Device) endpointOf(g ib.GID) *endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ep := range d.endpoints {
		if ep.gid == g {
			return ep
		}
	}
	return nil
}
