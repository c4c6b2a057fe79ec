package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// ethernet asks over RoCEv2 in userspace.
type ethernet struct {
	from string
	// ends are the local addresses in use.
	ends map[netip.Addr]*end
}

// end is a local address.
type end struct {
	provider *roce.Provider
	device   rdma.MADDevice
	gidIndex uint8
}

func (e *ethernet) close() {
	for _, n := range e.ends {
		_ = n.provider.Close() // there is nothing to lose
	}
}

// route opens the way to the agent at an address.
func (e *ethernet) route(ctx context.Context, arg string) (route, error) {
	remote, err := netip.ParseAddr(arg)
	remote = remote.Unmap()
	switch {
	case err != nil:
		return route{}, usageError{fmt.Errorf("%q is not an IP address", arg)}
	case remote.IsUnspecified() || remote.IsMulticast():
		return route{}, usageError{fmt.Errorf("%s is not the address of a target", arg)}
	case remote.Is6() && remote.IsLinkLocalUnicast() && remote.Zone() == "":
		return route{}, usageError{fmt.Errorf("%s is on each link another one: name the interface, as in %s%%eth0", arg, arg)}
	}
	local, err := localAddr("--from", e.from, remote)
	if err != nil {
		return route{}, err
	}
	n, err := e.end(ctx, local)
	if err != nil {
		return route{}, err
	}
	port, err := n.device.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: mad.ClassVersion})
	if err != nil {
		return route{}, cannotAsk(local, err)
	}
	return route{
		name: remote.String(), from: local.String(), port: port, line: lineTo(remote), close: func() { _ = port.Close() },
		silence: fmt.Sprintf(", and does no firewall between it and %s drop UDP port 4791", local),
		to: rdma.MADAddr{QPN: ib.QPGeneralServices, HasGRH: true,
			GRH: rdma.MADRoute{GID: ib.GID(remote.WithZone("").As16()), GIDIndex: n.gidIndex, HopLimit: 64}},
	}, nil
}

// end makes a device of a local address, once.
func (e *ethernet) end(ctx context.Context, local netip.Addr) (*end, error) {
	if n := e.ends[local]; n != nil {
		return n, nil
	}
	n := &end{provider: roce.New(roce.Config{Addrs: []netip.Addr{local}})}
	if err := n.open(ctx, local); err != nil {
		_ = n.provider.Close() // the error says more
		return nil, err
	}
	e.ends[local] = n
	return n, nil
}

func (n *end) open(ctx context.Context, local netip.Addr) error {
	devices, err := n.provider.Devices(ctx)
	if err != nil {
		return err
	}
	for _, d := range devices {
		ports, err := d.Ports()
		if err != nil {
			return err
		}
		i := slices.Index(ports[0].GIDs, ib.GID(local.WithZone("").As16()))
		dev, ok := d.(rdma.MADDevice)
		if ok && i >= 0 && i <= 255 {
			n.device, n.gidIndex = dev, uint8(i)
			return nil
		}
	}
	return fmt.Errorf("no network interface has the address %s; name another with --from", local)
}

// cannotAsk says why a local address cannot be used, and what helps.
func cannotAsk(local netip.Addr, err error) error {
	if !errors.Is(err, rdma.ErrInUse) {
		return fmt.Errorf("cannot ask from %s: %w", local, err)
	}
	return fmt.Errorf("cannot ask from %s: %w: somebody else has UDP port 4791 of that address, to which answers come: an srptd, or rdma_rxe "+
		"(ss -ulpn sport = 4791 tells). Name another local address with --from. An srptd of this host tells itself how to log in to it: "+
		"srptctl connect-info", local, rdma.ErrInUse)
}

// lineTo makes lines for RDMA/CM. The port is what the service id stands for.
func lineTo(remote netip.Addr) func(mad.Controller, mad.Service) (string, error) {
	return func(c mad.Controller, s mad.Service) (string, error) {
		if _, srp := s.IDExt(); !srp {
			return "", errNotSRP
		}
		port, ok := cm.ServicePort(s.ID)
		if !ok || port == 0 {
			return "", fmt.Errorf("its service id %016x stands for no RDMA/CM port, so that it cannot be logged in to by an address", s.ID)
		}
		line, _ := c.AddTargetAt(s, netip.AddrPortFrom(remote, port).String())
		return line, nil
	}
}

// errNotSRP says why a service has no line.
var errNotSRP = errors.New("it is no SRP target")
