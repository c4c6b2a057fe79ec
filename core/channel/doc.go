// Package channel is one SRP channel of a target as a pure state machine: login
// terms, credits, the life of commands, task management within the channel, and
// teardown. See design.md for the states.
//
// # Driving it
//
// One goroutine owns a Machine. After CheckLogin has given Terms and the
// application has admitted the initiator, the driver makes the Machine with New,
// posts Config.Recvs receives, accepts the connection, and from then on feeds
// one event for each thing that happens:
//
//	the connection is established                EvEstablished
//	it failed or was rejected before that        EvConnectFailed
//	nobody answered the accept in time           EvEstablishTimeout
//	a receive completed with bytes               EvRecv, Buf, IU = the bytes received
//	a receive completed otherwise                EvRecvDone, Buf, Outcome = Flushed or Failed
//	the last RDMA READ of a table completed      EvTableFetched, Slot, Outcome = the first that is not Done, IU
//	the last RDMA READ of a fetch completed      EvFetched, Slot, Outcome = the first that is not Done
//	the SEND of a response completed             EvSent, Slot, Outcome
//	the SEND of SRP_CRED_REQ or AER_REQ completed EvAskSent, Outcome
//	the SEND of SRP_T_LOGOUT completed           EvLogoutSent, Outcome
//	any other work failed, or the device is gone EvTransportError
//	the connection ended (the last completion)   EvDisconnected
//	drain took too long                          EvDrainTimeout
//	the initiator left an ask unanswered         EvAskTimeout
//	task management took too long                EvTaskTimeout, Slot
//	the handler wants a buffer of N for data-in  EvNeedBuffer, Slot, N
//	the handler wants N bytes of data-out        EvNeedData, Slot, N, Room
//	room for a table was granted                 EvTable, Slot
//	a lease was granted                          EvBuffer, Slot
//	a lease waited in vain                       EvBufferRefused, Slot
//	the handler finished a command               EvFinished, Slot, Result
//	the handler finished task management         EvManaged, Slot, Code
//	the nexus aborts tasks                       EvAbort, Op, Scope
//	something happened to a logical unit         EvReport, Scope.LUN, Result.Sense
//	the nexus lets a held channel run            EvAdmit
//	the operator or the nexus ends the channel   EvClose, Cause
//
// and carries out the actions that Step appends, strictly in order; what must
// wait for room in the send queue keeps ActWrite, ActRepost and ActRespond
// behind it waiting too; ActFetchTable and ActFetch need only keep their order among themselves. A
// handler may answer while its action is carried out: feed that event at once and append to the same slice,
//
//	for i := 0; i < len(acts); i++ {
//		do(acts[i]) // may do acts = m.Step(ev, acts)
//	}
//
// Because of that, an action may be out of date when its turn comes: skip
// ActAbort unless Executing(Slot), and expect ActUnlease for a lease that has
// been granted, or refused, in the meantime.
//
// A Slot names one request from its first action to ActRelease, after which the
// Machine ignores it. Until then Cmd, Data, TaskMgmt and AppendRsp may be asked
// about it. Every ActStart is followed by exactly one EvFinished and every
// ActManage by exactly one EvManaged, which may come after ActRelease if
// EvTaskTimeout came before it: the driver must see to that.
//
// Work that the driver has not yet posted when it carries out ActDisconnect or
// ActDestroy is dropped; it may be reported as failed or not at all, since
// EvDisconnected and ActDestroy end all work of the channel.
//
// Nothing is allocated after New but on the paths of errors and of aborts.
package channel
