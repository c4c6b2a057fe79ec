//go:build verbs

package verbs

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/core/ib"
)

// sysfsRoot has a directory for each device.
const sysfsRoot = "/sys/class/infiniband"

func readWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// interfacesOf finds the network interfaces of a port: those that its GIDs belong to, by number; an IPoIB interface has the GID in its
// hardware address, and an iWARP device the interface's hardware address in its GID.
func interfacesOf(table []ib.GID, numbers map[int]bool) []*net.Interface {
	all, _ := net.Interfaces()
	var found []*net.Interface
	for i := range all {
		hw := all[i].HardwareAddr
		byGID := len(table) > 0 && (len(hw) == 20 && bytes.Equal(hw[4:], table[0][:]) || len(hw) == 6 && bytes.Equal(hw, table[0][:6]))
		if numbers[all[i].Index] || byGID {
			found = append(found, &all[i])
		}
	}
	return found
}

// interfaceAddrs are the addresses of an interface; link-local ones carry its name.
func interfaceAddrs(i *net.Interface) []netip.Addr {
	list, _ := i.Addrs()
	var addrs []netip.Addr
	for _, a := range list {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		if ip = ip.Unmap(); ip.IsLinkLocalUnicast() && ip.Is6() {
			ip = ip.WithZone(i.Name)
		}
		addrs = append(addrs, ip)
	}
	return addrs
}

// hardwareCounters adds the counters that the driver keeps, summed over the ports.
func hardwareCounters(name string, m map[string]uint64) {
	files, _ := filepath.Glob(filepath.Join(sysfsRoot, name, "ports", "*", "hw_counters", "*"))
	for _, f := range files {
		base := filepath.Base(f)
		if n, err := strconv.ParseUint(readWord(f), 10, 64); err == nil && base != "lifespan" {
			m["hw_"+strings.ToLower(base)] += n
		}
	}
}
