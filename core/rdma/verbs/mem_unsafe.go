//go:build verbs

package verbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Everything here that is unsafe: views of C memory, and addresses given to C.

// adapter is a device of the list of libibverbs.
type adapter struct {
	name  string
	index uint32 // differs between devices that had one name
	guid  ib.GUID
	iwarp bool
}

// adapters lists the devices.
func adapters() ([]adapter, error) {
	var out []adapter
	err := eachDevice(func(dev *C.struct_ibv_device) bool {
		guid := C.ibv_get_device_guid(dev)
		out = append(out, adapter{
			name: C.GoString(C.ibv_get_device_name(dev)), index: uint32(C.ibv_get_device_index(dev)),
			guid:  ib.GUID(binary.BigEndian.Uint64(unsafe.Slice((*byte)(unsafe.Pointer(&guid)), 8))),
			iwarp: dev.transport_type == C.IBV_TRANSPORT_IWARP,
		})
		return true
	})
	return out, err
}

// eachDevice calls f for the devices until it returns false.
func eachDevice(f func(*C.struct_ibv_device) bool) error {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		if errors.Is(err, unix.ENOSYS) { // the kernel's modules are not loaded
			return nil
		}
		return err
	}
	defer C.ibv_free_device_list(list)
	for _, dev := range unsafe.Slice(list, int(n)) {
		if !f(dev) {
			break
		}
	}
	return nil
}

// openContext opens a device of the list.
func openContext(a adapter) (ctx *C.struct_ibv_context, err error) {
	err = errors.New("it is not there any more")
	listErr := eachDevice(func(dev *C.struct_ibv_device) bool {
		if C.GoString(C.ibv_get_device_name(dev)) != a.name || uint32(C.ibv_get_device_index(dev)) != a.index {
			return true
		}
		ctx, err = C.ibv_open_device(dev)
		if ctx != nil {
			err = nil
		}
		return false
	})
	return ctx, errors.Join(listErr, err)
}

// pkey reads an entry of a port's table.
func (d *Device) pkey(port, i int) (ib.PKey, error) {
	var k C.__be16
	if C.ibv_query_pkey(d.ctx, C.uint8_t(port), C.int(i), &k) != 0 {
		return 0, errors.New("query P_Key")
	}
	return ib.PKey(binary.BigEndian.Uint16(unsafe.Slice((*byte)(unsafe.Pointer(&k)), 2))), nil
}

// gid reads one entry of a port's table.
func (d *Device) gid(port, i int) (ib.GID, error) {
	var g C.union_ibv_gid
	if C.ibv_query_gid(d.ctx, C.uint8_t(port), C.int(i), &g) != 0 {
		return ib.GID{}, errors.New("query GID")
	}
	return ib.GID(g), nil
}

// gids reads a port's table, empty entries included but for those at the end, and the numbers of the network interfaces in it.
func (d *Device) gids(port, size int) (table []ib.GID, interfaces map[int]bool, err error) {
	entries := make([]C.struct_ibv_gid_entry, max(size*d.ports, 1))
	n, err := C._ibv_query_gid_table(d.ctx, &entries[0], C.size_t(len(entries)), 0, C.size_t(unsafe.Sizeof(entries[0])))
	if n < 0 {
		return nil, nil, err
	}
	table, interfaces = make([]ib.GID, size), make(map[int]bool)
	for i := range entries[:n] {
		if e := &entries[i]; int(e.port_num) == port && int(e.gid_index) < size {
			table[e.gid_index] = ib.GID(e.gid)
			interfaces[int(e.ndev_ifindex)] = e.ndev_ifindex != 0
		}
	}
	return trimTable(table), interfaces, nil
}

// register gives the device access to the region's memory.
func (r *region) register(rights C.int) error {
	p := unsafe.Pointer(&r.mem[0])
	mr, err := C.ibv_reg_mr_iova2(r.dev.pd, p, C.size_t(len(r.mem)), C.uint64_t(uintptr(p)), C.uint(rights))
	if mr == nil {
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w (is the limit of locked memory, ulimit -l, too low?)", err)
		}
		return err
	}
	r.mr, r.base, r.lkey, r.rkey = mr, uint64(uintptr(p)), uint32(mr.lkey), uint32(mr.rkey)
	return nil
}

// rings are the views of a queue's memory.
func rings(q *C.struct_gv_queue) ([]C.struct_gv_wr, []C.struct_ibv_sge) {
	places := int(q.mask) + 1
	return unsafe.Slice(q.wrs, places), unsafe.Slice(q.sges, places*int(q.max_sge))
}

// orderOf is the view of a shared receive queue's order.
func orderOf(s *C.struct_gv_srq) []C.uint32_t { return unsafe.Slice(s.order, int(s.q.mask)+1) }

// growDirty makes room for n queue pairs in the list that gv_cq_turn works through.
func (c *cq) growDirty(n int) error {
	if n <= len(c.slots) {
		return nil
	}
	size := max(2*len(c.slots), 16, n)
	p := C.calloc(C.size_t(size), C.size_t(unsafe.Sizeof(uintptr(0))))
	if p == nil {
		return unix.ENOMEM
	}
	C.free(unsafe.Pointer(c.c.dirty))
	c.c.dirty = (**C.struct_gv_qp)(p)
	c.slots = unsafe.Slice(c.c.dirty, size)
	return nil
}

// sockaddr makes the address of C. The zero one means none.
func sockaddr(a netip.AddrPort) (ss C.struct_sockaddr_storage) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&ss)), unsafe.Sizeof(ss))
	addr := a.Addr().Unmap()
	switch {
	case addr.Is4():
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		ip := addr.As4()
		copy(b[4:], ip[:])
	case addr.Is6():
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		ip := addr.As16()
		copy(b[8:], ip[:])
		binary.NativeEndian.PutUint32(b[24:], scope(addr.Zone()))
	}
	return ss
}

// addrPort is the reverse.
func addrPort(ss *C.struct_sockaddr_storage) netip.AddrPort {
	b := unsafe.Slice((*byte)(unsafe.Pointer(ss)), unsafe.Sizeof(*ss))
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case unix.AF_INET6:
		a := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if s := binary.NativeEndian.Uint32(b[24:]); s != 0 && a.IsLinkLocalUnicast() {
			a = a.WithZone(zone(s))
		}
		return netip.AddrPortFrom(a, port)
	}
	return netip.AddrPort{}
}

// serviceAddr is the address of C for a service id at the port of a GID.
func serviceAddr(service uint64, gid ib.GID) (ss C.struct_sockaddr_storage) {
	C.gv_service_addr(C.uint64_t(service), (*C.uint8_t)(unsafe.Pointer(&gid)), &ss)
	return ss
}

// addrBytes are the bytes of an address of C.
func addrBytes(ss *C.struct_sockaddr_storage) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(ss)), unsafe.Sizeof(*ss))
}

// privateData is what C copies at once.
func privateData(b []byte) (unsafe.Pointer, C.uint8_t) {
	if len(b) == 0 {
		return nil, 0
	}
	return unsafe.Pointer(&b[0]), C.uint8_t(len(b))
}

// bytesOf copies the data of an event.
func bytesOf(ev *C.struct_gv_event) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&ev.data)), int(ev.len))...)
}
