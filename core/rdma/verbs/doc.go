// Package verbs is an RDMA provider on rdma-core: real adapters, and the kernel's rxe and siw. It is built with the tag verbs, by
// cgo, where the headers of libibverbs, librdmacm and libibumad are; without the tag there is the account of shared receives alone, for its
// tests. It is the only package with cgo.
//
// # Parts
//
//	Provider -> manager            librdmacm's event channel and the goroutine that reads it
//	Provider -> Device             an open ibv_context and the goroutine that reads its asynchronous events
//	            Device -> cq       one ibv_cq with a completion channel
//	                      cq -> qp an ibv_qp with two rings of work requests
//	                      cq -> srq an ibv_srq, and the account of what is in which slot of it
//	            Device -> MADPort  a registration of libibumad and the goroutine that reads its descriptor
//	OpenUMAD, UMADAdapters         the same without a device, and what ports there are
//
// All of C is behind shim.h, whose functions take and return batches and copies.
//
// # Threads
//
// A cq, its qps and its srqs are their owner's (package rdma), and so are the C objects behind them: every verb on a queue pair, completion
// queue or shared receive queue is called by the owner, without a lock. What happens elsewhere, events of connections and of the device, is left as a note
// (cq.post), which the owner finds at its next Poll; an eventfd in the descriptor of the cq wakes it. Nothing that the owner calls
// waits: ending a connection, which can take the connection manager a while, is left to a goroutine (manager.retire) that the device
// waits for.
//
// Both event descriptors do not block and are watched by Go's poller, so no thread sits in a read. An event is copied and
// acknowledged in one call of C; destroying an object waits for the acknowledgement of its events alone, never for a goroutine of ours.
//
// # Handles and memory
//
// C keeps no Go pointer. What it has to give back, contexts of ids, queue pairs, completion queues and shared receive queues, are numbers
// that are never used twice; a wr_id is the number of the queue pair, or shared receive queue, within its cq and the place in its ring. Events
// and completions of what has been closed meanwhile find nobody under their number and are dropped.
//
// The rings, the arrays of completions and the copies of events are C memory, written and read by both sides, by the owner's thread at
// a time: gv_queue says which index is whose. The device writes into registered memory alone. In the product that is mapped by mmap;
// memory of Go's heap, as tests register it, is pinned until the region is closed.
//
// # What a device grants
//
// A device may not have all at once what its attributes tell of. A queue pair is asked for again with less (fit.go): of a send queue that is
// shorter than the owner's, the ring hides that; shorter lists are what QP.MaxSGE tells; receives are never fewer, for the peer has been
// promised them. A connection has as many RDMA READs outstanding as the lesser side allows (reads.go).
//
// # Ends
//
// A connection that ends has its queue pair put into the error state; when the device has flushed what was handed to it, the rest is
// flushed here and the event follows. A device that does not flush, as one that has been pulled out, has a few seconds, then the queue
// pair is destroyed and everything flushed here.
//
// # Shared receives
//
// A receive of a shared queue lies in a slot, which its wr_id names, for receives complete in any order; whose it was, the number of the
// queue pair in the completion says, which is why a queue pair is destroyed between two looks at the whole completion queue: no completion of
// it is left when another may have its number. The completions of a shared queue have room in the cq once, those of its queue pairs none.
//
// A queue pair that is closed has perhaps taken receives, and the memory of its other work must not be touched any more. If it has no
// other work under way it lingers: in error, until the device says that it has taken its last receive (IBV_EVENT_QP_LAST_WQE_REACHED), for a
// second where that does not come (rxe of Linux 6.1), until its room is needed or the shared queue is closed. If it has, it is
// destroyed at once, after what the device has flushed by then.
//
// So a receive may be lost: rxe of Linux 6.12 drops that of a message which is not whole when the connection ends. It comes back, flushed, when
// the order of receives proves that no queue pair has it (sharedReceives): devices take from a shared queue in order. The proof needs every
// queue pair that was there to have completed a later receive, or to have gone; until then there is one receive less, and while all are lost
// there is none. A device whose receives come out of order is not believed: what it loses stays lost.
//
// A shared queue that fails (IBV_EVENT_SRQ_ERR) ends its queue pairs and answers ErrBroken.
//
// # Removal
//
// A driver that cannot take its device from a process that uses it (rxe, siw) waits for the process: the removal of such a device is
// over when the Device has been closed. librdmacm opens devices of its own accord; it gives up one that has gone when it is asked
// for the list of devices and there is at least one left.
//
// # Limits
//
// librdmacm lets a consumer refuse a connection with reason 28 (consumer defined) alone: other reasons arrive as that, without
// private data.
//
// Classic logins of InfiniBand, by service id, come through librdmacm as well (AF_IB, RDMA_PS_IB), for no other connection manager is left
// to a process. The kernel lets it listen to rdma.ServiceID of a port alone, at ports whose link layer is InfiniBand, in the first network
// namespace. A connection to one can be taken, not made.
//
// A request is served in the partition that it names, or refused: the connection manager's word on which entry of the port's table that
// is, is compared with the request.
//
// The device chooses the keys of regions: they are as predictable as its driver makes them, and so the target
// registers nothing for remote access.
//
// # iWARP
//
// The exception to that is iWARP, whose READ is answered by what is a write: regions with rdma.ReadSink are remotely writable there, in
// all connections of the device, for whoever has or guesses their key. (siw does not even look for the right to be read.)
//
// The kernel makes the queue pair ready itself, and the active side is told that it is established, with the data of the reply. The
// accepting side must not send before the active one has (RFC 5044, 7.1.2): its work is held until the first message came. A message
// that finds no receive ends the connection, so receives are handed over before the reply goes. Connecting over siw waits for TCP's
// handshake in the owner's call. There are no reasons of rejections, no partitions, no GIDs of peers and no management datagrams; a
// connection that TCP refuses is one to an invalid service.
package verbs
