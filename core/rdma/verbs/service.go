//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// checkID tells what keeps a service id from being listened to, as far as that can be known without the kernel.
func (l *listener) checkID() error {
	if !rdma.IsServiceID(l.svc.ID) || l.svc.Addr != (netip.AddrPort{}) {
		return fmt.Errorf("%w: the kernel lets a process listen to %016x to %016x alone", rdma.ErrInvalid, rdma.ServiceID(1), rdma.ServiceID(1<<16-1))
	}
	ports, err := l.dev.Ports()
	if err != nil {
		return err
	}
	l.port, err = servicePort(l.dev.name, ports, l.svc.GID)
	return err
}

// servicePort finds the port that a GID names, which must be one of InfiniBand.
func servicePort(device string, ports []rdma.Port, g ib.GID) (num int, err error) {
	for i := range ports {
		p := &ports[i]
		for _, have := range p.GIDs {
			switch {
			case have != g || g.IsZero():
			case p.Link != ib.LinkInfiniBand:
				return 0, fmt.Errorf("%w: port %d of %s is %v: service ids are InfiniBand's", rdma.ErrInvalid, p.Num, device, p.Link)
			default:
				return p.Num, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: no port of %s has the GID %v", rdma.ErrInvalid, device, g)
}

// openService makes the id that listens to a service id at one port.
func (b *binding) openService(l *listener) error {
	ss := serviceAddr(l.svc.ID, l.svc.GID)
	id, err := b.listenAt(&ss, 1, 0)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w (librdmacm and the kernel must know AF_IB, and there must have been an InfiniBand device when it was first used)", err)
	}
	if err != nil {
		return fmt.Errorf("at port %d of %s: %w", l.port, l.dev.name, err)
	}
	return l.owns(id)
}

// admits tells whether a request is of a partition that the port is in, and notes the key by which it is. A queue pair would silently get
// another one, if the connection manager said so.
func (d *Device) admits(id *cmID, info *rdma.ConnInfo) bool {
	var c C.struct_gv_conn
	if C.gv_cm_partition(id.ptr, &c) != 0 || c.has_pkey == 0 {
		return true // iWARP has no partitions; whoever answers notices what has gone meanwhile
	}
	return d.inPartition(info, func() (ib.PKey, error) { return d.pkey(int(c.port), int(c.pkey_index)) })
}

func (d *Device) inPartition(info *rdma.ConnInfo, read func() (ib.PKey, error)) bool {
	key, err := read()
	if err == nil {
		err = samePartition(ib.PKey(info.PKey), key)
	}
	if err != nil {
		d.counts.partitionRefused.Add(1)
		d.log.Warn("refused a connection", "peer", info.RemoteName(), "port", info.Port, "error", err)
		return false
	}
	info.PKey = uint16(key)
	return true
}

// errPartition tells that a request is of a partition that the port is not in.
var errPartition = errors.New("the port is not in the partition that is asked for")

// samePartition compares the partition that a request asks for, 0 where it is not known, with the one that a queue pair would get.
func samePartition(asked, got ib.PKey) error {
	if asked == 0 || asked.Matches(got) {
		return nil
	}
	return fmt.Errorf("%w: P_Key %#04x, and the port has %#04x", errPartition, uint16(asked), uint16(got))
}
