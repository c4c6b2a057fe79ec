//go:build verbs

package verbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// UMADAdapter is an adapter as the kernel's tables show it, whether anything of it is open or not.
type UMADAdapter struct {
	Name     string
	NodeGUID ib.GUID
	Ports    []UMADPort
}

// UMADPort is one of its ports. The MTU is not among what is known here: 0.
type UMADPort struct {
	rdma.Port
	// Rate is in Gbit/s.
	Rate int
	// SMSL is the service level on which the subnet's manager is reached.
	SMSL uint8
	// Capabilities is the port's CapabilityMask (IBTA vol 1, 14.2.5.6). Initiators that look for targets ask ports with bit 19,
	// IsDeviceManagementSupported, alone; the kernel lets no process set it.
	Capabilities uint32
}

// UMADAdapters lists the adapters of the machine; none is no error. One that goes while it is read is left out.
func UMADAdapters() ([]UMADAdapter, error) {
	names, err := umadNames()
	if err != nil {
		return nil, &rdma.Error{Op: "list adapters", Err: err}
	}
	var list []UMADAdapter
	for _, name := range names {
		a, err := ReadUMADAdapter(name)
		switch {
		case err == nil:
			list = append(list, a)
		case !errors.Is(err, rdma.ErrInvalid):
			return nil, err
		}
	}
	return list, nil
}

// ReadUMADAdapter reads an adapter and its ports as they are now. The error wraps ErrInvalid if there is none of that name.
func ReadUMADAdapter(name string) (UMADAdapter, error) {
	if !validAdapter(name) {
		return UMADAdapter{}, &rdma.Error{Op: "read ports of", Peer: name, Err: rdma.ErrInvalid}
	}
	a, err := umadAdapter(name)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %w", rdma.ErrInvalid, err)
	}
	if err != nil {
		return UMADAdapter{}, &rdma.Error{Op: "read ports of", Peer: name, Err: err}
	}
	for i := range a.Ports {
		p := &a.Ports[i]
		p.PKeys = trimTable(p.PKeys)
		if gids := readGIDs(filepath.Join("/sys/class/infiniband", name, "ports", strconv.Itoa(p.Num), "gids")); len(gids) > 0 {
			p.GIDs = gids
		}
	}
	return a, nil
}

// validAdapter tells whether a name can be an adapter's, which is part of paths: libibumad has room for 19 bytes.
func validAdapter(name string) bool {
	return name != "" && len(name) < 20 && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\x00")
}

func umadLink(s string) ib.LinkLayer {
	switch s {
	case "InfiniBand", "IB":
		return ib.LinkInfiniBand
	case "Ethernet":
		return ib.LinkEthernet
	}
	return ib.LinkUnspecified
}

// readGIDs reads a GID table, of which libibumad tells the first entry alone. Empty entries at its end are left out.
func readGIDs(dir string) []ib.GID {
	var gids []ib.GID
	for i := range 256 { // as many as a MADRoute can name
		b, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			break
		}
		g, err := ib.ParseGID(strings.TrimSpace(string(b)))
		if err != nil {
			break
		}
		gids = append(gids, g)
	}
	return trimTable(gids)
}

// trimTable leaves out the empty entries at the end of a table. The places of the others stay.
func trimTable[E comparable](table []E) []E {
	var zero E
	for len(table) > 0 && table[len(table)-1] == zero {
		table = table[:len(table)-1]
	}
	return table
}
