package doctor

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// socket is a UDP socket on the RoCE port.
type socket struct {
	addr  netip.Addr
	inode uint64
}

// udpSockets reads the sockets on the RoCE port from one of the kernel's tables.
func (h *Host) udpSockets(table string) ([]socket, error) {
	text, err := h.readUpTo(table, maxTable)
	if err != nil {
		return nil, err
	}
	var list []socket
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		addr, port, ok := parseSocketAddr(f[1])
		inode, err := strconv.ParseUint(f[9], 10, 64)
		if ok && err == nil && port == wire.UDPPort {
			list = append(list, socket{addr, inode})
		}
	}
	return list, nil
}

// parseSocketAddr reads 0100007F:12B7, words of 32 bits in the machine's order, and a port.
func parseSocketAddr(s string) (netip.Addr, uint16, bool) {
	host, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	n, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(b) != 4 && len(b) != 16 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return a, uint16(n), true
}

// inTheWay tells whether a socket keeps srptd from an address.
func (e *exam) inTheWay(s socket) bool {
	if s.addr.IsUnspecified() {
		return true
	}
	if listen := e.listen(); len(listen) > 0 {
		return slices.ContainsFunc(listen, func(a netip.Addr) bool { return a.WithZone("") == s.addr })
	}
	return !s.addr.IsLoopback()
}

// port4791 looks who uses the RoCE port.
func (e *exam) port4791() {
	const check = "port 4791"
	var list []socket
	whole := true
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		l, err := e.host.udpSockets(table)
		if err != nil && e.host.exists(table) {
			whole = false
			e.add(NotChecked, check, "UDP", "", "%v", err)
		}
		list = append(list, l...)
	}
	list = slices.DeleteFunc(list, func(s socket) bool { return !e.inTheWay(s) })
	inodes := map[uint64]bool{}
	for _, s := range list {
		inodes[s.inode] = true
	}
	owners := map[uint64]int{}
	if len(inodes) > 0 {
		owners = e.host.owners(inodes)
	}
	at := map[int][]string{} // addresses by the owner's pid, 0 for an unknown one
	for _, s := range list {
		pid := owners[s.inode]
		if a := s.addr.String(); !slices.Contains(at[pid], a) {
			at[pid] = append(at[pid], a)
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(at)) {
		e.owner(pid, strings.Join(at[pid], ", "))
	}
	if len(at) == 0 && whole {
		e.add(OK, check, "UDP", "", "nobody uses it")
	}
	e.softRoCE()
}

// owner tells who has the port at some addresses.
func (e *exam) owner(pid int, addrs string) {
	const check = "port 4791"
	daemon := slices.ContainsFunc(e.daemons, func(p process) bool { return p.pid == pid })
	switch {
	case daemon && (pid == e.self || e.self == 0 && len(e.daemons) == 1):
		e.add(OK, check, addrs, "", "srptd (pid %d) has it", pid)
	case daemon:
		e.add(Problem, check, addrs, fmt.Sprintf("end it: kill %d; or give the two different addresses: listen", pid), "another srptd (pid %d) has it", pid)
	case pid != 0:
		e.add(Problem, check, addrs, fmt.Sprintf("end it: kill %d; or give srptd other addresses: listen", pid), "%s (pid %d) has it", e.host.comm(pid), pid)
	case !e.root() && len(e.daemons) > 0:
		e.add(NotChecked, check, addrs, "", "somebody has it; whether that is srptd (pid %d) is not to be seen without root", e.daemons[0].pid)
	case !e.root():
		e.add(Problem, check, addrs, "sudo ss -ulpn sport = 4791", "somebody has it; who is not to be seen without root")
	default:
		e.add(Problem, check, addrs, "modprobe -r rdma_rxe, or run srptd in a network namespace of its own",
			"no process has it, so the kernel does: rdma_rxe is loaded")
	}
}

// softRoCE looks for the kernel's RoCE in software, which answers in srptd's place.
func (e *exam) softRoCE() {
	for _, dir := range e.host.glob("/sys/class/infiniband/*") {
		parent, err := e.host.read(dir + "/parent")
		if err != nil || parent == "" {
			continue
		}
		name := dir[strings.LastIndexByte(dir, '/')+1:]
		e.add(Problem, "port 4791", name, "rdma link delete "+name+"; modprobe -r rdma_rxe",
			"rdma_rxe, the kernel's own RoCE, is on %s and owns UDP port 4791", parent)
	}
}
