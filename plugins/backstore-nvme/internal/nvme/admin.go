package nvme

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Admin commands (NVM Express 1.4, clause 5) and their parameters.
const (
	opGetLogPage = 0x02
	opIdentify   = 0x06

	cnsNamespace   = 0x00
	cnsController  = 0x01
	cnsDescriptors = 0x03

	logHealth = 0x02

	// broadcastNSID is all namespaces, and for a log page the controller.
	broadcastNSID = 0xffffffff
)

// describe asks the controller all that is to be known of the namespace behind fd.
func (k *kernel) describe(fd int) (*description, error) {
	nsid, err := k.nsid(fd)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return nil, errors.New("is no NVMe namespace; backstore-file serves other block devices")
	}
	if err != nil {
		return nil, err
	}
	d := &description{}
	b, err := k.identify(fd, "Identify Controller", cnsController, 0)
	if err == nil {
		d.ctrl, err = parseController(b)
	}
	if err != nil {
		return nil, err
	}
	b, err = k.identify(fd, "Identify Namespace", cnsNamespace, nsid)
	if err == nil {
		d.ns, err = parseNamespace(b)
	}
	if err != nil {
		return nil, err
	}
	d.identity = identity{serial: d.ctrl.serial(), nsid: nsid, nguid: [16]byte(d.ns[offNGUID:]), eui: [8]byte(d.ns[offEUI64:])}
	if err := k.addDescriptors(d, fd); err != nil {
		return nil, err
	}
	health := make([]byte, healthSize)
	d.healthErr = k.admin(fd, command{opcode: opGetLogPage, nsid: broadcastNSID, cdw10: (healthSize/4-1)<<16 | logHealth}, health)
	d.warnings = health[0]
	return d, nil
}

// addDescriptors reads the list of identifiers. Controllers before 1.3 do not have it, and a broken one is no reason not to serve
// the namespace.
func (k *kernel) addDescriptors(d *description, fd int) error {
	b, err := k.identify(fd, "Identify Namespace Identification Descriptors", cnsDescriptors, d.nsid)
	var refused statusError
	switch {
	case errors.As(err, &refused):
		return nil
	case err != nil:
		return err
	}
	var set uint8
	if set, d.identityErr = d.identity.addDescriptors(b); set != commandSetNVM {
		return fmt.Errorf("its command set is %d, not that of blocks that can be written in any order: it is zoned or has keys and values", set)
	}
	return nil
}

// identify makes an Identify command.
func (k *kernel) identify(fd int, name string, cns, nsid uint32) ([]byte, error) {
	b := make([]byte, identifySize)
	err := k.admin(fd, command{opcode: opIdentify, nsid: nsid, cdw10: cns}, b)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("%s: %w; the plugin needs CAP_SYS_ADMIN to ask the controller", name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}
