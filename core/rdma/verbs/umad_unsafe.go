//go:build verbs

package verbs

/*
#cgo pkg-config: libibumad
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/umad.h>

_Static_assert(sizeof(struct ib_user_mad) == 64, "struct ib_user_mad");
_Static_assert(offsetof(struct ib_user_mad, addr) == 20, "struct ib_user_mad");
_Static_assert(offsetof(struct ib_user_mad, addr.gid) == 36, "struct ib_user_mad");
_Static_assert(offsetof(struct ib_user_mad, addr.pkey_index) == 56, "struct ib_user_mad");

// umad_loaded tells whether there is an ib_umad. The library would say so itself, on stderr, each time.
static int umad_loaded(void) {
	int fd = open(IB_UMAD_ABI_DIR "/" IB_UMAD_ABI_FILE, O_RDONLY);
	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

static int umad_wait(int fd, int timeout_ms) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, timeout_ms);
}

static uint64_t umad_be64(__be64 v) { return be64toh(v); }
static uint32_t umad_be32(__be32 v) { return be32toh(v); }
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// umadInit makes the library ready, once.
var umadInit = sync.OnceValue(func() error {
	if C.umad_init() < 0 {
		return errors.New("libibumad cannot be used")
	}
	return nil
})

var errNoUMAD = errors.New("there is no userspace management datagram device: load the kernel module ib_umad")

// umadOpen opens the device file of a port. No program that is started meanwhile inherits it.
func umadOpen(ca string, port int) (int, error) {
	if err := umadInit(); err != nil {
		return 0, err
	}
	if C.umad_loaded() == 0 {
		return 0, errNoUMAD
	}
	name := C.CString(ca)
	defer C.free(unsafe.Pointer(name))
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := C.umad_open_port(name, C.int(port))
	switch {
	case fd == -C.EIO && err != nil:
		return 0, fmt.Errorf("open its device file: %w", err)
	case fd < 0:
		return 0, unix.Errno(-fd)
	case C.umad_size() != umadHeader:
		C.umad_close_port(fd)
		return 0, errors.New("the kernel is too old: its datagrams have no P_Key index")
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// umadRegister returns the agent's id. With no methods the agent gets nothing but responses.
func umadRegister(fd int, class ib.Class, version uint8, methods []ib.Method) (uint32, error) {
	const bits = 8 * C.sizeof_long
	var mask [128 / bits]C.long
	for _, m := range methods {
		mask[m/bits] |= 1 << (m % bits)
	}
	id, err := C.umad_register(C.int(fd), C.int(class), C.int(version), 0, &mask[0])
	switch {
	case id >= 0:
		return uint32(id), nil
	case err != nil:
		return 0, err
	}
	return 0, unix.Errno(-id)
}

// newUMADFile takes over what umadOpen has returned, unless there is an error. A descriptor that the kernel does not know is one of a simulation that stands between
// libibumad and the C library.
func newUMADFile(fd int) (umadFile, error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); errors.Is(err, unix.EBADF) {
		return &libcFile{fd: C.int(fd)}, nil
	}
	return newKernelFile(fd)
}

func umadClose(fd int) { C.umad_close_port(C.int(fd)) }

// libcPatience is how long a reader of a libcFile may hold a thread, and close wait for it.
const libcPatience = 100 * time.Millisecond

// libcFile is a descriptor that means something to the C library alone. It is waited on in small pieces.
type libcFile struct {
	fd     C.int
	mu     sync.RWMutex // held for reading in calls of the C library
	closed bool
}

func (l *libcFile) read(ctx context.Context, b []byte) (int, error) {
	for {
		ended := ctx.Err()
		wait := libcPatience
		if ended != nil {
			wait = 0
		}
		n, err := l.readWithin(b, wait)
		switch {
		case !errors.Is(err, unix.EAGAIN):
			return n, err
		case ended != nil:
			return 0, ended
		}
	}
}

func (l *libcFile) readWithin(b []byte, wait time.Duration) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return 0, os.ErrClosed
	}
	if C.umad_wait(l.fd, C.int(wait.Milliseconds())) <= 0 {
		return 0, unix.EAGAIN
	}
	n, err := C.read(l.fd, unsafe.Pointer(&b[0]), C.size_t(len(b)))
	return libcResult(int(n), len(b), err)
}

// libcResult is what a read has led to.
func libcResult(n, room int, err error) (int, error) {
	switch {
	case n >= 0 && n <= room:
		return n, nil
	case err == nil:
		return 0, unix.EIO
	}
	return 0, err
}

func (l *libcFile) write(b []byte) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return os.ErrClosed
	}
	n, err := C.write(l.fd, unsafe.Pointer(&b[0]), C.size_t(len(b)))
	if _, err := libcResult(int(n), len(b), err); err != nil {
		return err
	}
	return nil
}

func (l *libcFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	l.closed = true
	C.umad_close_port(l.fd)
	return nil
}

// umadNames lists the adapters that the kernel knows.
func umadNames() ([]string, error) {
	if err := umadInit(); err != nil {
		return nil, err
	}
	list := C.umad_get_ca_device_list()
	defer C.umad_free_ca_device_list(list)
	var names []string
	for n := list; n != nil; n = n.next {
		names = append(names, C.GoString(n.ca_name))
	}
	return names, nil
}

// umadAdapter reads an adapter and its ports.
func umadAdapter(name string) (UMADAdapter, error) {
	if err := umadInit(); err != nil {
		return UMADAdapter{}, err
	}
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var ca C.umad_ca_t
	if n := C.umad_get_ca(c, &ca); n < 0 {
		return UMADAdapter{}, unix.Errno(-n)
	}
	defer C.umad_release_ca(&ca)
	a := UMADAdapter{Name: name, NodeGUID: ib.GUID(C.umad_be64(ca.node_guid))}
	for _, p := range ca.ports {
		if p != nil && p.portnum > 0 {
			a.Ports = append(a.Ports, umadPortOf(p))
		}
	}
	return a, nil
}

func umadPortOf(p *C.umad_port_t) UMADPort {
	guid, state := ib.GUID(C.umad_be64(p.port_guid)), ib.PortState(p.state)
	port := UMADPort{Rate: int(p.rate), SMSL: uint8(p.sm_sl), Capabilities: uint32(C.umad_be32(p.capmask)), Port: rdma.Port{
		Num: int(p.portnum), GUID: guid, State: state, Active: state == ib.PortActive, Link: umadLink(C.GoString(&p.link_layer[0])),
		LID: ib.LID(p.base_lid), SMLID: ib.LID(p.sm_lid), LMC: uint8(p.lmc),
		GIDs: []ib.GID{ib.MakeGID(uint64(C.umad_be64(p.gid_prefix)), guid)}}}
	for _, k := range unsafe.Slice((*uint16)(unsafe.Pointer(p.pkeys)), int(p.pkeys_size)) {
		port.PKeys = append(port.PKeys, ib.PKey(k))
	}
	return port
}
