package async

import (
	"fmt"
	"os"
	"syscall"
)

// Addresses are the multicast groups of NETLINK_ROUTE that tell of links and addresses.
const Addresses = 1<<(syscall.RTNLGRP_LINK-1) | 1<<(syscall.RTNLGRP_IPV4_IFADDR-1) | 1<<(syscall.RTNLGRP_IPV6_IFADDR-1)

// Netlink opens a socket that gets what the kernel tells the multicast groups of a netlink protocol. It does not block: Go's poller waits
// for it. The kernel drops messages when there are many (ENOBUFS), so that one is a cause to look, and nothing to rely on.
func Netlink(protocol int, groups uint32) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: groups}); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("bind netlink socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}
