// Package cm is InfiniBand communication management (IBTA volume 1, chapter 12), as RoCEv2
// carries it in datagrams to QP 1: the messages as views of bytes, and the state machine of both
// sides of a connection.
//
// # Messages
//
//	msg, err := cm.ParseMessage(mad)            256 bytes, class and version checked
//	msg.Attr(), msg.REQ().StartingPSN(), msg.REJ().Reason(), ...
//	mad, err := (&cm.REQFields{...}).Append(nil, tid)
//	h, rest, ok := cm.ParseIPHeader(req.Private())
//	id := cm.ServiceID(port)
//
// # The machine
//
// A [Machine] stands for one local endpoint. It takes events and gives actions, and does nothing
// else: it has no clock, no socket, no goroutine and no lock.
//
//	m := cm.New(cm.Config{CAGUID: guid, Rand: rand32})
//	m.Listen(cm.ServiceID(5555))
//	actions, err = m.Step(now, cm.Received{Peer: gid, MAD: mad}, actions[:0])
//	at, ok := m.Deadline()                      then Step(now, cm.Tick{}, ...)
//
// Events are what the network sends (Received), time (Tick), the first RC packet of a connection
// (Traffic), and the user's commands (Connect, Accept, Reject, Disconnect). Actions are messages to send
// and news for the user, and are to be carried out in order. Every connection ends with one ActionEnded and
// one ActionReleased; after the latter its QPN may be used again.
//
// # PSN
//
// The starting PSN in a REQ or REP is the number that the receiver of the message sends with first.
// So the fields are called RecvPSN where the user says what the local QP expects, and SendPSN where
// the user learns with what the local QP has to begin. See REQ for the source.
//
// # What peers can and cannot do
//
// Peers are told apart by IP address and communication ids, which are unpredictable. Requests that
// are not established are bounded in number, in total and for each peer, and in time; ended connections are bounded
// in number and time. A REP is repeated a few times only, since the address that asked may be forged. Nothing that
// a peer sends makes the machine panic or keep more memory.
//
// Not done: UD service resolution (SIDR), path migration (LAP), XRC. Such messages are counted and
// otherwise ignored.
//
// Where the specification leaves a choice, or Linux differs from it: a DREQ for an unknown connection gets
// a DREP; a REP for one, REJ 6; a repeated REQ of an established connection nothing, because a REJ
// would end it; a REQ with the QPN of a live connection gets REJ 10, and that connection ends at
// once, so that the next attempt succeeds. A QPN in timewait is no obstacle to a new REQ: this end
// sends nothing more to it.
package cm
