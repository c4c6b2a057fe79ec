package initiator

import "sync/atomic"

// counters are written by the session's goroutine.
type counters struct {
	commands, tasks, unknownTags, targetRequests atomic.Uint64
}

// Stats is what a session has seen.
type Stats struct {
	// Commands and Tasks count SRP_CMD and SRP_TSK_MGMT that were sent.
	Commands, Tasks uint64
	// UnknownTags counts responses to nothing that was outstanding.
	UnknownTags uint64
	// TargetRequests counts SRP_CRED_REQ and SRP_AER_REQ.
	TargetRequests uint64
}

// Stats returns the session's counters.
func (s *Session) Stats() Stats {
	return Stats{Commands: s.stats.commands.Load(), Tasks: s.stats.tasks.Load(),
		UnknownTags: s.stats.unknownTags.Load(), TargetRequests: s.stats.targetRequests.Load()}
}

// ChannelInfo is what a login has settled for one channel, and where it stands.
type ChannelInfo struct {
	// MaxITIU and MaxTIIU are the longest units to and from the target, in bytes.
	MaxITIU, MaxTIIU uint32
	// Immediate tells that immediate data was granted.
	Immediate bool
	// Credits is the request limit now: how many requests the target still takes.
	Credits int32
	// Outstanding is how many commands wait for a response.
	Outstanding int
}

// Channels describes the channels. It returns nil once the session has ended, and waits for the
// session's goroutine, so that it must not be called from Command.Done.
func (s *Session) Channels() []ChannelInfo {
	got := make(chan []ChannelInfo, 1)
	s.do(func() {
		var list []ChannelInfo
		for _, ch := range s.channels {
			info := ChannelInfo{MaxITIU: ch.maxITIU, MaxTIIU: ch.maxTIIU, Immediate: ch.immediate, Credits: ch.limit}
			for i := range ch.slots {
				if ch.slots[i].cmd != nil {
					info.Outstanding++
				}
			}
			list = append(list, info)
		}
		got <- list
	}, func(error) { got <- nil })
	return <-got
}
