package target

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// allowKey brings an initiator's name into the one form that is looked up. What has 32 digits is a
// port id and what has 16 a GUID; an IPv6 address has neither unless it is written out in full, when
// it has eight groups and a GUID four.
func allowKey(name string) (string, error) {
	n := strings.TrimSpace(name)
	if strings.Count(n, ":") == 7 {
		if a, err := netip.ParseAddr(n); err == nil {
			return a.String(), nil
		}
	}
	if id, err := srp.ParsePortID(n); err == nil {
		return idKey(id), nil
	}
	if g := strings.ReplaceAll(n, ":", ""); len(g) == 16 && !strings.Contains(n, "::") {
		if id, err := srp.ParsePortID("0000000000000000" + g); err == nil {
			return guidKey(id), nil
		}
	}
	if a, err := netip.ParseAddr(n); err == nil {
		return a.Unmap().WithZone("").String(), nil
	}
	return "", fmt.Errorf("%w: initiator %q is neither a port id of 32 hexadecimal digits, nor a GUID of 16, nor an IP address", ErrConfig, name)
}

// sourceKey is the form in which where a login comes from is looked up.
func sourceKey(i *rdma.ConnInfo) string {
	a := i.Remote.Addr()
	if !a.IsValid() {
		a = netip.AddrFrom16(i.RemoteGID)
	}
	return a.Unmap().WithZone("").String()
}
