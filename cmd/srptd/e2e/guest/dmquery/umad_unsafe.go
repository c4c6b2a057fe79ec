package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
)

// The kernel's interface to management datagrams (include/uapi/rdma/ib_user_mad.h).
const (
	ioctlRegister   = 3<<30 | 28<<16 | 0x1b<<8 | 1 // _IOWR(0x1b, 1, struct ib_user_mad_reg_req)
	ioctlEnablePKey = 0x1b<<8 | 3                  // _IO(0x1b, 3)
	headerSize      = 64                           // struct ib_user_mad_hdr
)

// registration is a struct ib_user_mad_reg_req: without methods, it is that of a client.
type registration struct {
	id      uint32
	methods [4]uint32
	qpn     uint8
	class   uint8
	version uint8
	oui     [3]uint8
	rmpp    uint8
	_       uint8
}

var _ [28]byte = [unsafe.Sizeof(registration{})]byte{}

// umad is a client of the Device Management class at a port.
type umad struct {
	file  *os.File
	agent uint32
}

func openUMAD(path string) (*umad, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	r := registration{qpn: uint8(ib.QPGeneralServices), class: uint8(ib.ClassDeviceMgmt), version: 1}
	for _, call := range []struct {
		name string
		req  uintptr
		arg  unsafe.Pointer
	}{{"use P_Key indices", ioctlEnablePKey, nil}, {"register", ioctlRegister, unsafe.Pointer(&r)}} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), call.req, uintptr(call.arg)); errno != 0 {
			f.Close()
			return nil, fmt.Errorf("%s: %s: %w", path, call.name, errno)
		}
	}
	return &umad{f, r.id}, nil
}

// exchange sends a datagram to queue pair 1 of a GID, from the port's GID of index from, and returns the answer, or none if the kernel gave
// up waiting for it. The kernel puts its own upper half into the transaction id.
func (u *umad) exchange(to ib.GID, from uint8, mad []byte, wait time.Duration, retries int) (answer []byte, err error) {
	b := make([]byte, headerSize+ib.MADSize)
	binary.NativeEndian.PutUint32(b, u.agent)
	binary.NativeEndian.PutUint32(b[8:], uint32(wait.Milliseconds()))
	binary.NativeEndian.PutUint32(b[12:], uint32(retries))
	binary.BigEndian.PutUint32(b[20:], uint32(ib.QPGeneralServices))
	binary.BigEndian.PutUint32(b[24:], uint32(ib.QKeyGSI))
	b[32], b[33], b[34] = 1, from, 64 // GRH, hop limit
	copy(b[36:52], to[:])
	copy(b[headerSize:], mad)
	if _, err := u.file.Write(b); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	n, err := u.file.Read(b)
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	if n < headerSize {
		return nil, fmt.Errorf("received %d bytes", n)
	}
	switch status := unix.Errno(binary.NativeEndian.Uint32(b[4:])); {
	case status == unix.ETIMEDOUT:
		return nil, nil
	case status != 0:
		return nil, fmt.Errorf("the kernel says: %w", status)
	case n != len(b):
		return nil, fmt.Errorf("received %d bytes, want %d", n, len(b))
	}
	return b[headerSize:], nil
}
