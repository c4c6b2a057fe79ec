package roce

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
)

// gidOf is the GID of an address.
func gidOf(a netip.Addr) ib.GID { return ib.GID(a.As16()) }

// addrOf is the address of a GID; zone names the interface of a link-local one.
func addrOf(g ib.GID, zone string) netip.Addr {
	if ip, ok := g.IPv4(); ok {
		return netip.AddrFrom4(ip)
	}
	a := netip.AddrFrom16(g)
	if a.IsLinkLocalUnicast() {
		return a.WithZone(zone)
	}
	return a
}

// nic is a network interface as it is now.
type nic struct {
	name     string
	index    int
	mtu      int
	up       bool
	loopback bool
	mac      [6]byte
	addrs    []netip.Addr
}

func (n *nic) guid() ib.GUID { return ib.EUI64(n.mac) }

func (n *nic) state() ib.PortState {
	if n.up {
		return ib.PortActive
	}
	return ib.PortDown
}

// gids is the GID table.
func (n *nic) gids() []ib.GID {
	var list []ib.GID
	for _, a := range n.addrs {
		list = append(list, gidOf(a.WithZone("")))
	}
	return list
}

// nics lists the interfaces.
func nics(cfg *Config) ([]nic, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var list []nic
	for i := range ifs {
		n, err := makeNIC(&ifs[i], cfg)
		if err != nil {
			continue // it has gone meanwhile
		}
		list = append(list, n)
	}
	return list, nil
}

// wants tells whether an interface is to become a device. One that has become one stays it, whatever happens to its link and addresses.
func (c *Config) wants(n *nic) bool {
	switch {
	case c.rules.refuses(n.name):
		return false
	case c.rules.named(n.name):
		return true
	case len(n.addrs) == 0:
		return false
	case !c.rules.everything() || len(c.Addrs) > 0:
		return true // some address of it is asked for
	}
	return n.up && !n.loopback
}

func makeNIC(i *net.Interface, cfg *Config) (nic, error) {
	n := nic{
		name: i.Name, index: i.Index, mtu: i.MTU,
		up:       i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0,
		loopback: i.Flags&net.FlagLoopback != 0,
	}
	copy(n.mac[:], i.HardwareAddr)
	addrs, err := i.Addrs()
	if err != nil {
		return nic{}, fmt.Errorf("list addresses of %s: %w", i.Name, err)
	}
	for _, a := range addrs {
		ipn, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(ipn.IP); ok {
			n.add(ip.Unmap(), cfg)
		}
	}
	if n.loopback {
		for _, a := range cfg.Addrs {
			if a.IsLoopback() {
				n.add(a, cfg)
			}
		}
	}
	slices.SortStableFunc(n.addrs, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	return n, nil
}

// add adds an address unless the configuration leaves it out.
func (n *nic) add(a netip.Addr, cfg *Config) {
	if a.IsLinkLocalUnicast() && a.Is6() {
		a = a.WithZone(n.name)
	}
	listed := len(cfg.Addrs) == 0 || slices.Contains(cfg.Addrs, a) || slices.Contains(cfg.Addrs, a.WithZone(""))
	if listed && cfg.rules.takes(n, a) && !slices.Contains(n.addrs, a) {
		n.addrs = append(n.addrs, a)
	}
}

// rank sorts addresses as the kernel sorts a GID table: link-local first.
func rank(a netip.Addr) int {
	switch {
	case a.Is6() && a.IsLinkLocalUnicast():
		return 0
	case a.Is4():
		return 1
	}
	return 2
}
