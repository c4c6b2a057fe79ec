// Package nexus is one I_T nexus of a target as a pure state machine: its
// channels (r16a 5.3, multi-channel operation), task management across them
// (SAM-5 7), and the queue of unit attention conditions that each of its logical
// units keeps for it (SAM-5 5.14).
//
// # Driving it
//
// Whoever owns the nexus feeds a Nexus one event for each thing that happens and
// carries out the actions that Step appends, in order. Commands never come here:
// each channel looks after its own, and is asked to abort them.
//
//	a channel was made, held                      EvJoin, Channel, Single = its action
//	a channel is gone                             EvLeave, Channel
//	a channel hands on task management, its own   EvManage, Channel, Request, Function, LUN,
//	commands having ended                         Known = LUN is mapped, Tag, N = commands ended
//	a channel has aborted what ActAbort meant     EvAborted, Channel, Op, N
//	the other nexuses of a logical unit are done  EvUnitDone, Op
//	another nexus' function ends our commands     EvClear, Op, LUN, Reset, TaskAborted
//
// Every channel is made held and runs after its ActAdmit. That comes at once
// unless channels that a login with the single-channel action replaced have not
// left yet: a command sent again over the new channel must not be overtaken by
// its first copy on the old one.
package nexus
