package mad

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// AddTarget is the line by which Linux's ib_srp logs in to a service of the controller through InfiniBand, at the port
// with that GID and in that partition. It returns false if the service is not that of an SRP target.
func (c *Controller) AddTarget(s Service, port ib.GID, pkey ib.PKey) (string, bool) {
	return c.addTarget(s, fmt.Sprintf("dgid=%s,pkey=%04x,service_id=%016x", port.Hex(), uint16(pkey), s.ID))
}

// AddTargetAt is the same through RDMA/CM, as on Ethernet: dest is the target's address and RDMA/CM port, such as
// 10.0.0.2:5555 or [fe80::2%eth0]:5555.
func (c *Controller) AddTargetAt(s Service, dest string) (string, bool) {
	return c.addTarget(s, "dest="+dest)
}

func (c *Controller) addTarget(s Service, where string) (string, bool) {
	idExt, ok := s.IDExt()
	if !ok {
		return "", false
	}
	line := fmt.Sprintf("id_ext=%016x,ioc_guid=%v,%s", idExt, c.GUID, where)
	if c.Protocol.Class != SRP.Class {
		line += fmt.Sprintf(",io_class=%04x", c.Protocol.Class)
	}
	return line + c.lengths(), true
}

// What ib_srp asks for at a login, in bytes: room for a command with cmd_sg_entries descriptors, or for as much immediate
// data as it sends at the most, whichever is more (srp_max_it_iu_len).
const (
	linuxCommand    = 48 + 16 + 20 // SRP_CMD, additional CDB, head of the indirect table
	linuxDescriptor = 16
	linuxEntries    = 255 // the most that a command has room for
	linuxImmediate  = 68 + 8192
)

// lengths are the options that make ib_srp ask for no longer units than the controller accepts, and use the length that
// there is for descriptors. max_it_iu_size is the last one: kernels before 5.6 read a line up to it.
func (c *Controller) lengths() string {
	var options string
	if c.SendSize >= linuxCommand+linuxDescriptor {
		options = fmt.Sprintf(",cmd_sg_entries=%d", min((c.SendSize-linuxCommand)/linuxDescriptor, linuxEntries))
	}
	if c.SendSize < linuxImmediate {
		options += fmt.Sprintf(",max_it_iu_size=%d", c.SendSize)
	}
	return options
}
