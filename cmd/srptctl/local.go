package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// localAddr chooses the address from which to reach a remote one: local as the flag gives it, an address or an
// interface, or the system's choice if it is empty. Two ends on one host need two addresses, since both use UDP port 4791.
func localAddr(flag, local string, remote netip.Addr) (netip.Addr, error) {
	switch a, err := netip.ParseAddr(local); {
	case local == "" && remote.IsLoopback() && remote.Is4() && remote != netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	case local == "":
		return sourceAddr(remote)
	case err != nil:
		return interfaceAddr(flag, local, remote)
	case a.Unmap().Is4() != remote.Is4():
		return a, usageError{fmt.Errorf("%s %s cannot reach %s, which is of the other IP version", flag, local, remote)}
	default:
		return a.Unmap(), nil
	}
}

// sourceAddr asks the system which address it would send from; nothing is sent.
func sourceAddr(remote netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, wire.UDPPort)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no way to %s: %w", remote, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// interfaceAddr chooses the address of an interface: one whose network the remote one is in, else the first of its kind.
func interfaceAddr(flag, name string, remote netip.Addr) (netip.Addr, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, usageError{fmt.Errorf("%s %q is neither an address nor an interface", flag, name)}
	}
	list, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of %s: %w", name, err)
	}
	var best netip.Addr
	for _, n := range list {
		p, err := netip.ParsePrefix(n.String())
		if err != nil || !sameKind(p.Addr(), remote) {
			continue
		}
		a := p.Addr()
		if a.Is6() && a.IsLinkLocalUnicast() {
			a = a.WithZone(name)
		}
		if p.Contains(remote.WithZone("")) {
			return a, nil
		}
		if !best.IsValid() {
			best = a
		}
	}
	if !best.IsValid() {
		return best, fmt.Errorf("%s has no address from which %s can be reached", name, remote)
	}
	return best, nil
}

// sameKind tells whether one address can reach the other: same version, both link-local or none.
func sameKind(a, b netip.Addr) bool {
	return a.Is4() == b.Is4() && (a.Is4() || a.IsLinkLocalUnicast() == b.IsLinkLocalUnicast())
}
