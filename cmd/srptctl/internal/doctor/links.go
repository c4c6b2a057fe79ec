package doctor

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// interfaces reads the network interfaces, for the checks that follow.
func (e *exam) interfaces() {
	links, err := e.host.Links()
	if err != nil {
		e.add(NotChecked, "address", "interfaces", "", "the kernel does not list them: %v", err)
		return
	}
	e.links = links
}

// listen is the configured addresses, none for all.
func (e *exam) listen() []netip.Addr {
	if e.cfg == nil {
		return nil
	}
	return e.cfg.Listen
}

// has tells whether an interface has an address, and how.
func (l *Link) has(a netip.Addr) (Addr, bool) {
	for _, have := range l.Addrs {
		if have.Prefix.Addr().WithZone("") == a.WithZone("") && (a.Zone() == "" || a.Zone() == l.Name) {
			return have, true
		}
	}
	// All of 127/8 belongs to the loopback interface.
	return Addr{}, l.Loopback && a.IsLoopback() && a.Is4()
}

// serves tells whether srptd is to serve an interface.
func (e *exam) serves(l *Link) bool {
	if listen := e.listen(); len(listen) > 0 {
		return slices.ContainsFunc(listen, func(a netip.Addr) bool { _, ok := l.has(a); return ok })
	}
	return !l.Loopback && len(l.Addrs) > 0
}

// served lists the interfaces that srptd is to serve.
func (e *exam) served() []Link {
	var list []Link
	for i := range e.links {
		if e.serves(&e.links[i]) {
			list = append(list, e.links[i])
		}
	}
	return list
}

// addresses looks for the configured addresses, and at the links that have them.
func (e *exam) addresses() {
	const check = "address"
	for _, a := range e.listen() {
		i := slices.IndexFunc(e.links, func(l Link) bool { _, ok := l.has(a); return ok })
		if i < 0 {
			e.add(Problem, check, a.String(), "ip address add "+a.WithZone("").String()+"/PREFIX dev INTERFACE, or change listen",
				"no interface has the address: nobody can log in there until one does")
			continue
		}
		e.address(&e.links[i], a)
	}
	served := e.served()
	for i := range served {
		e.link(&served[i])
	}
	if len(served) == 0 && len(e.listen()) == 0 {
		e.add(Warning, check, "interfaces", "ip address add ADDRESS/PREFIX dev INTERFACE, or for loopback listen: [127.0.0.1]",
			"none but loopback has an address: srptd starts and serves the first one that gets one")
	}
}

func (e *exam) address(l *Link, a netip.Addr) {
	switch have, _ := l.has(a); {
	case have.Duplicate:
		e.add(Problem, "address", a.String(), "remove it from the other host, or choose another one", "%s has it, and so has another host on the link", l.Name)
	case have.Tentative:
		e.add(Warning, "address", a.String(), "", "%s has just got it: whether another host has it too is still being found out", l.Name)
	default:
		e.add(OK, "address", a.String(), "", "on %s", l.Name)
	}
}

// link looks whether an interface carries anything.
func (e *exam) link(l *Link) {
	level := Warning
	if len(e.listen()) > 0 {
		level = Problem
	}
	p := e.find(l.Parent)
	switch {
	case !l.Up:
		e.add(level, "link", l.Name, "ip link set dev "+l.Name+" up", "it is down")
	case p != nil && !p.Up:
		e.add(level, "link", l.Name, "ip link set dev "+p.Name+" up", "%s, which carries it, is down", p.Name)
	case !l.Carrier && l.Kind == "bridge":
		e.add(OK, "link", l.Name, "", "a bridge with nothing on it; it is served as soon as there is")
	case !l.Carrier:
		e.add(level, "link", l.Name, "look at the cable, and at the switch's port", "it has no carrier")
	default:
		var list []string
		for _, a := range l.Addrs {
			list = append(list, a.Prefix.Addr().String())
		}
		e.add(OK, "link", l.Name, "", "up, with %s", strings.Join(list, ", "))
	}
}

func (e *exam) find(name string) *Link {
	i := slices.IndexFunc(e.links, func(l Link) bool { return name != "" && l.Name == name })
	if i < 0 {
		return nil
	}
	return &e.links[i]
}

// goodMTU is an interface's MTU that carries the largest path MTU, over IPv6 too, and is easy to remember.
const goodMTU = 4200

// mtu looks whether the interfaces carry whole blocks.
func (e *exam) mtu() {
	served := e.served()
	for i := range served {
		e.mtuOf(&served[i])
	}
}

func (e *exam) mtuOf(l *Link) {
	const check = "mtu"
	v6 := slices.ContainsFunc(l.Addrs, func(a Addr) bool { return a.Prefix.Addr().Is6() })
	path := wire.PathMTU(l.MTU, v6)
	larger := "ip link set dev " + l.Name + " mtu 4200"
	switch {
	case !path.Valid():
		e.add(Problem, check, l.Name, larger, "%d bytes are too few for RoCE, which needs room for blocks of 256", l.MTU)
	case path < ib.MTU1024:
		e.add(Warning, check, l.Name, "ip link set dev "+l.Name+" mtu 1500", "%d bytes carry a path MTU of %d: many small packets", l.MTU, path.Bytes())
	case l.MTU < goodMTU && path < ib.MTU4096:
		e.add(OK, check, l.Name, larger+", if the switch and the initiators have as much",
			"%d bytes carry a path MTU of %d of the 4096 that there can be", l.MTU, path.Bytes())
	default:
		e.add(OK, check, l.Name, "", "%d bytes carry a path MTU of %d", l.MTU, path.Bytes())
	}
	if p := e.find(l.Parent); p != nil && p.MTU < l.MTU {
		e.add(Problem, check, l.Name, "ip link set dev "+p.Name+" mtu "+strconv.Itoa(l.MTU),
			"%s, which carries it, takes %d bytes and not %d: longer packets are lost", p.Name, p.MTU, l.MTU)
	}
	var small []string
	for _, s := range e.links {
		if s.Master == l.Name && s.MTU < l.MTU {
			small = append(small, s.Name)
		}
	}
	if len(small) > 0 {
		e.add(Problem, check, l.Name, "ip link set dev "+small[0]+" mtu "+strconv.Itoa(l.MTU),
			"its parts %s take less than its %d bytes: longer packets are lost", strings.Join(small, ", "), l.MTU)
	}
}
