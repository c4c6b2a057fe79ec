package rdmatest

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

var _ rdma.MADDevice = (*Device)(nil)

// OpenMAD registers for a class on port 1. Datagrams of every version of the class are handed out.
func (d *Device) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	if port != 1 {
		return nil, opError("register for datagrams", d.cfg.Name, rdma.ErrInvalid)
	}
	if d.cfg.IWARP {
		return nil, opError("register for datagrams", d.cfg.Name, rdma.ErrUnsupported)
	}
	return d.mads.Open(cfg)
}

// DeliverMAD lets a datagram arrive at the device as if from had sent it, whatever its bytes and length are.
func (d *Device) DeliverMAD(from rdma.MADAddr, b []byte) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.takeMAD(from, b)
}

func (d *Device) takeMAD(from rdma.MADAddr, b []byte) {
	if d.mads.Deliver(from, b) {
		d.count.madsIn++
	} else {
		d.count.madsLost++
	}
}

// sendMAD sends a datagram. On the way the address is turned round, as the peer sees it.
func (d *Device) sendMAD(to rdma.MADAddr, m ib.MAD) error {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case d.closed:
		return rdma.ErrClosed
	case !d.reachable(to):
		return rdma.ErrInvalid
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
		from.GRH.GID = d.gids()[to.GRH.GIDIndex]
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
		(!to.HasGRH || int(to.GRH.GIDIndex) < len(d.gids()))
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
	return slices.Index(d.gids(), g)
}
