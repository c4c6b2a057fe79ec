// Package ibsimtest is an InfiniBand subnet for tests, simulated by Debian's ibsim, with Debian's opensm as its manager: three
// adapters on a switch, and one that is on none. A process takes part through a library that is loaded before libibumad's C
// library and gives it the files of one adapter, ibsim0.
//
//	H0  a subnet manager    H1  our agent    H2  an initiator that asks, and another subnet manager    H3  without a cable
//
// The product's code on H1 and H2 is that of real adapters but for the wait for a datagram. What the simulation lacks: it has no
// verbs device; its tables are made once, when a process starts; it loses the last 24 bytes of each datagram. It
// has room for ten processes, and a Go program keeps its place when it has ended: it does not leave by the C library's exit.
package ibsimtest
