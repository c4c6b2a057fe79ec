// Package roce is an RDMA provider that needs no RDMA hardware, no kernel module and no privilege:
// it speaks RoCEv2 (IBTA vol 1, annex A17) on UDP sockets. A device is a network interface.
//
// # Parts
//
// Packets are package wire, the reliable-connection transport is package rc, connection management
// is package cm; all three are pure. This package is what touches the world: sockets, memory,
// clocks and goroutines.
//
//	Provider -> Device (an interface) -> endpoint (an IP address)
//	  endpoint: one socket for QP 1 with a goroutine and a cm.Machine, and one socket for each CQ
//	  CQ:       the sockets of its number at every endpoint, the QPs made from it, their rc.Machines
//
// All sockets of an endpoint are bound to the same address and port 4791 (SO_REUSEPORT). A classic
// BPF program tells the kernel which one gets a datagram: the one of QP 1, or the one that the low
// byte of the destination queue pair number names. So each CQ receives what is for its own QPs and
// nothing else, and its owner needs no lock.
//
// # Addresses that come and go
//
// A device follows its interface. An address that comes is bound, and every CQ and listener gets its part of it. One that has been
// missing for Config.AddressGrace is retired: its connection manager ends, each CQ ends the connections that it has there (with
// rdma.ErrLost as the cause) and lets go of its socket, and the last to do so closes them all. An address that cannot be bound, because another
// device or process still has it, is tried again. The device is removed when its interface is gone, or has another name or MAC address.
//
// # Sending
//
// The invariant CRC covers the IPv4 identification, so the kernel's choice of it must be known. A
// datagram from an unconnected socket that never fragments has 0; the i-th segment of a
// segmented send has i. Runs of packets of one size to one QP leave in one segmented send, and
// all runs of a Flush in one sendmmsg.
//
// # Receiving
//
// A UDP socket does not show the identification, so the CRC of IPv4 packets is checked up to the
// 16 bits of it (see wire.Flow.Verify). The kernel's rdma_rxe sends with UDP checksum 0, which IPv6
// sockets accept only if asked to.
//
// READ responses arrive at the requester's will and fill its socket buffer; losing what else is in
// there may break a peer for good (see package rc). So READs have a budget for each socket, half of
// what the kernel granted as its receive buffer.
//
// # Limits
//
// rdma_rxe owns port 4791 of its network namespace: it must not be loaded in the one that this
// provider works in.
package roce
