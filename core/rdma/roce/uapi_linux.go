package roce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// Sizes of what the kernel reads and writes.
const (
	cmsgHeader   = 16 // struct cmsghdr
	cmsgSpace2   = 24 // CMSG_SPACE(sizeof(__u16))
	cmsgLen2     = 18 // CMSG_LEN(sizeof(__u16))
	controlSpace = 64 // room for UDP_GRO and SO_RXQ_OVFL
	sockaddrSize = 28 // struct sockaddr_in6, the longer one
)

// sockaddr is a struct sockaddr_in or sockaddr_in6.
type sockaddr struct {
	b [sockaddrSize]byte
	n uint32
}

func newSockaddr(a netip.Addr, zone uint32) (s sockaddr) {
	s.n = uint32(putSockaddr(&s.b, a, zone))
	return s
}

// putSockaddr writes the address with port 4791 and returns its length.
func putSockaddr(b *[sockaddrSize]byte, a netip.Addr, zone uint32) int {
	binary.BigEndian.PutUint16(b[2:], wire.UDPPort)
	if a.Is4() {
		binary.NativeEndian.PutUint16(b[:], unix.AF_INET)
		ip := a.As4()
		copy(b[4:], ip[:])
		return 16
	}
	binary.NativeEndian.PutUint16(b[:], unix.AF_INET6)
	ip := a.As16()
	copy(b[8:], ip[:])
	binary.NativeEndian.PutUint32(b[24:], zone)
	return sockaddrSize
}

// addressOf reads a source address as the kernel wrote it.
func addressOf(b *[sockaddrSize]byte, v6 bool) (ip [16]byte, port uint16) {
	port = binary.BigEndian.Uint16(b[2:])
	if v6 {
		copy(ip[:], b[8:24])
	} else {
		ip[10], ip[11] = 0xFF, 0xFF
		copy(ip[12:], b[4:8])
	}
	return ip, port
}

// segmentControl writes the control message that asks for segments of size bytes.
func segmentControl(b *[cmsgSpace2]byte, size int) {
	binary.NativeEndian.PutUint64(b[:], cmsgLen2)
	binary.NativeEndian.PutUint32(b[8:], unix.SOL_UDP)
	binary.NativeEndian.PutUint32(b[12:], unix.UDP_SEGMENT)
	binary.NativeEndian.PutUint16(b[16:], uint16(size))
}

// received is what the control messages of a datagram say.
type received struct {
	segment int    // size of the coalesced segments, 0 if there is one datagram
	dropped uint32 // datagrams that the socket has dropped since it was made, if known
	counted bool
}

func parseControl(b []byte) (r received) {
	for len(b) >= cmsgHeader {
		n := binary.NativeEndian.Uint64(b)
		if n < cmsgHeader || n > uint64(len(b)) {
			return r
		}
		level, kind := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
		data := b[cmsgHeader:n]
		switch {
		case level == unix.SOL_UDP && kind == unix.UDP_GRO && len(data) >= 2:
			r.segment = int(binary.NativeEndian.Uint16(data))
		case level == unix.SOL_SOCKET && kind == unix.SO_RXQ_OVFL && len(data) >= 4:
			r.dropped, r.counted = binary.NativeEndian.Uint32(data), true
		}
		b = b[min((n+7)&^7, uint64(len(b))):]
	}
	return r
}

// socketConfig says what a socket is for.
type socketConfig struct {
	addr            netip.Addr
	zone            uint32
	receive, send   int // buffer sizes
	gro             bool
	share           bool
	mayBeUnassigned bool // an IPv6 address that may still be tentative
}

// openSocket makes a datagram socket bound to addr:4791, which never fragments.
func openSocket(c socketConfig) (fd int, err error) {
	family := unix.AF_INET6
	if c.addr.Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := setUp(fd, c); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

type sockopt struct {
	name              string
	level, opt, value int
}

func setUp(fd int, c socketConfig) error {
	opts := []sockopt{{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}}
	if !c.addr.Is4() {
		opts = []sockopt{
			{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{"UDP_NO_CHECK6_RX", unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1},
		}
	}
	if c.share {
		opts = append(opts, sockopt{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	if c.mayBeUnassigned {
		opts = append(opts, sockopt{"IPV6_FREEBIND", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1})
	}
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, c.receive)
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, c.send)
	// Both only help: a kernel that lacks them does without.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if c.gro {
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return bind(fd, c)
}

// setBuffer asks for a buffer, beyond the administrator's limit if we may. What was granted is asked later.
func setBuffer(fd, force, plain, n int) {
	if n <= 0 {
		return
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, n)
	}
}

func bind(fd int, c socketConfig) error {
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: wire.UDPPort, Addr: c.addr.As16(), ZoneId: c.zone}
	if c.addr.Is4() {
		sa = &unix.SockaddrInet4{Port: wire.UDPPort, Addr: c.addr.As4()}
	}
	err := unix.Bind(fd, sa)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("bind UDP port %d: %w (is rdma_rxe loaded in this network namespace, or another target running?)",
			wire.UDPPort, err)
	}
	if err != nil {
		return fmt.Errorf("bind UDP port %d: %w", wire.UDPPort, err)
	}
	return nil
}

// receiveRoom is the receive buffer that the kernel granted, in its own accounting.
func receiveRoom(fd int) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 212992
	}
	return n
}

// truesize is what a received packet of n bytes of payload costs in a receive buffer: the kernel
// rounds its memory up to a power of two and adds its own descriptor.
func truesize(n int) int {
	const overhead, descriptor = 512, 256
	size := 512
	for size < n+overhead {
		size *= 2
	}
	return size + descriptor
}

// steer attaches the program that picks the socket of a datagram within the group of those that share
// an address: number 0 for QP 1, else the low byte of the destination QP number plus 1. The
// program sees the datagram from its UDP payload on; one that is too short goes to number 0.
func steer(fd int) error {
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xFFFFFF},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 1, Jt: 3},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xFF},
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, K: 1},
		{Code: unix.BPF_RET | bpfRetA},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &prog); err != nil {
		return fmt.Errorf("SO_ATTACH_REUSEPORT_CBPF: %w", err)
	}
	return nil
}

const bpfRetA = 0x10
