// Package target is the SRP target port: it listens, admits initiators, maps LUNs to logical units,
// and runs the commands of its sessions.
//
// A [Target] has one reactor, in which everything happens that concerns a command; channels,
// sessions and the LUN map belong to it. Logins are examined in goroutines of their own, of which
// there is a bounded number, because an authoriser may take its time; they leave nothing behind
// when they are refused.
//
// # A login
//
// The form of the request follows from how the connection was addressed, never from its bytes.
// Length, type, flags, formats, port ids and limits are checked first (channel.CheckLogin), then the
// [Authorizer] is asked, then the channel is counted, made and accepted. Every refusal carries the
// SRP_LOGIN_REJ reason that r16a has for it, is logged once with its true cause, and is counted.
//
// # Sessions
//
// A session is an I_T nexus with at least one channel. A login that asks for a single channel ends
// the channels that its nexus has, and begins a new session. The new session's commands wait until
// the last command of the old one has ended: an initiator sends again what was in flight, and no
// old write may land after the new one.
//
// # Room
//
// Channels are bounded for each nexus, for each port of a device and for the target ([Limits]). Of the latter two, a reserve is for the first
// channel of a nexus alone, so that no host is kept out by the further channels of others. Where the plan in force says so the channels of a
// device share their receives: each is promised as many as it has credits and unsolicited units, never more together than there are. A
// channel has the plan's credits while there is room, then an eighth of what is left, at least two; a quarter is for first channels alone. A channel
// that has ended gives its receives back when its last command has ended, so a host that comes back may get fewer credits than before when there is little room.
//
// # Who sees what
//
// A [Grant] can give a session a LUN map of its own: REPORT LUNS, commands and task management then go by its numbers, and two
// sessions may know one logical unit by two. When the authoriser's mind changes ([Target.AuthChanged], [Target.Reauthorize]) it is asked
// about every session concerned. A session that is not permitted any more is closed; another one gets what is granted now, and learns of it by unit
// attentions, and commands to what it has lost end with TASK ABORTED. Without an answer a session stays as it is, and the
// question is asked again. A login that was decided before a change and accepted after it is asked about again, too.
//
// # Peers that vanish
//
// A channel that has been idle for Timing.Probe is probed with an RDMA WRITE of nothing, and work
// that does not complete within Timing.Dead ends it. So a peer that vanished without a word is
// found within their sum, 30 seconds by default.
//
// One reactor serves all sessions for now: task management reaches the commands of other sessions
// directly.
package target
