// Package rdma is the seam between gosrpt and an RDMA fabric. Three providers implement it: roce
// (RoCEv2 in userspace over UDP), verbs (rdma-core) and rdmatest (memory, with faults). Every one
// of them passes rdmatest.TestProvider.
//
// # Shape
//
//	Provider -> Device -> CQ -> QP        data path, batch first
//	                        CQ -> SRQ     receives that QPs share, where there are any
//	            Device -> Region          registered memory
//	            Device -> Listener -> ConnRequest -> QP.Accept      passive side
//	            QP.Connect                                          active side
//	            MADDevice -> MADPort                                discovery, where there is any
//	Watcher  -> Watch -> AsyncEvent                                  what happens to devices and ports
//
// # Goroutines
//
// A CQ has one owner goroutine, in this product a reactor. Everything that moves data is called
// by the owner only and never blocks: CQ.Poll, CQ.Flush, CQ.Arm, CQ.Deadline, CQ.NewQP, and every method
// of the QPs and SRQs made from it. In return the data path needs no lock. Before the owner starts, and
// after it has ended, one other goroutine may make these calls in its stead. Everything else
// (Provider, Device, Listener, ConnRequest, Region, MADPort, Watch) may be used from any goroutine.
//
// # Buffers
//
// The memory that a posted Work names belongs to the QP from Post until its completion has been
// returned by Poll, or until QP.Close has returned. Cancelling a context gives nothing back. The
// Work values and their SGL slices themselves may be reused as soon as Post returns.
//
// # Ends
//
// Every Close may be called twice; the second call does nothing and returns nil. A method called
// after Close returns ErrClosed unless its comment says otherwise.
package rdma
