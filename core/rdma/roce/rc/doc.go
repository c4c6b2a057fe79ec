// Package rc is the reliable-connection transport of InfiniBand (IBTA vol 1, chapter 9) as a pure
// machine: one Machine is one queue pair's requester and responder. Packets, work and the time go
// in; packets and completions come out. It opens no socket, reads no clock, starts no goroutine
// and allocates nothing once made.
//
// # Use
//
// The owner calls, from one goroutine, with a time that never runs backwards:
//
//	PostSend, PostRecv      queue work
//	Receive                 hand in one packet of the peer
//	Tick                    when Deadline has passed
//	Next                    until it answers false: the packets to send, acknowledgements first
//	Poll                    take completions
//
// Nothing that a peer sends makes the machine panic, write outside the memory it was given, or
// grow. What does not fit the protocol is counted and dropped, or answered with a NAK where the
// standard says so.
//
// # Policies beyond the standard
//
// The kernel's software initiator (rdma_rxe with ib_srp) cannot survive having to repeat a SEND
// while memory registrations stand in its queue. The responder therefore does its best never to
// ask for a repetition: packets that overtake others are held for a while before the gap is
// reported, and a SEND that finds no receive posted waits as long before an RNR NAK.
//
// READ responses fill the requester's socket buffer, which all its queue pairs share: READs are
// cut into chunks, and each chunk waits for room in a Budget.
//
// The requester keeps at most a window of packets unacknowledged; the window is halved when a
// packet is lost and grows again slowly. While the link has shown no loss, nothing is repeated
// before the retry timer; once it has, what is late is repeated early, because a lost last packet
// leaves no gap for the peer to complain about. Likewise nobody misses a lost acknowledgement but
// the peer's timer, so the last one of a burst is repeated.
package rc
