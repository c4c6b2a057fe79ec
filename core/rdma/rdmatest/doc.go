// Package rdmatest is the in-memory twin of an RDMA fabric, and the suite that every provider
// passes.
//
// A Fabric joins the devices of any number of Providers. What is posted on one device arrives on
// another one of the same fabric, copied from buffer to buffer, in order. The twin follows
// the contracts of package rdma to the letter where a real fabric would often let a fault pass:
// nothing is transmitted before Flush or Arm, a send queue slot is free only after a completion
// that covers it was returned, work posted before the connection is established is flushed, and
// private data is padded as the connection manager pads it. It waits by package time alone, so
// that it works in a testing/synctest bubble. In steady state it allocates nothing.
//
// Device has the faults: Hold, Release and Step stop and meter what arrives; FailAfter ends a
// piece of work with a chosen status; Break, Vanish and SetLink cut connections, the peer and the
// link; LimitSends makes the send queue look full; DeliverMAD brings datagrams that no peer would send.
//
// TestProvider tests each sentence of the contracts of package rdma with two devices that can
// reach each other. Loop is the owner goroutine of a completion queue, for it and for other tests.
package rdmatest
