package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/srp"
)

// SessionInfo is a snapshot of a session.
type SessionInfo struct {
	// ID numbers the sessions since the start.
	ID uint64
	// Initiator and Target name the I_T nexus.
	Initiator, Target srp.PortID
	// ReadOnly tells that the initiator may not write.
	ReadOnly bool
	// MaxChannels and QueueDepth are its quotas, 0 where the target's own limit holds.
	MaxChannels, QueueDepth int
	// ChannelLimit is the most channels that it may have now.
	ChannelLimit int
	// Permission is why it was permitted, in the authoriser's words.
	Permission string
	// LUNs is what it sees now, in the order of its numbers, and AllLUNs whether that is every unit of the target.
	LUNs    []LUNInfo
	AllLUNs bool
	// Age is the time since the first login.
	Age time.Duration
	// Channels are the channels, oldest first, those that are ending included.
	Channels []ChannelInfo
}

// ChannelInfo is a snapshot of a channel.
type ChannelInfo struct {
	// ID numbers the channels of the session.
	ID uint64
	conn.ChannelStats
}

// Sessions returns a snapshot of every session, oldest first.
func (t *Target) Sessions(ctx context.Context) ([]SessionInfo, error) {
	var list []SessionInfo
	err := t.reactor.Call(ctx, func() {
		for _, s := range t.sessions {
			list = append(list, s.info())
		}
	})
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list, err
}

func (s *session) info() SessionInfo {
	policy := s.t.planned.Load().policyFor(&s.grant)
	i := SessionInfo{
		ChannelLimit: policy.MaxChannels,
		ID:           uint64(s.id), Initiator: s.key.initiator, Target: s.key.target, ReadOnly: s.grant.ReadOnly,
		MaxChannels: s.grant.Channels, QueueDepth: s.grant.QueueDepth,
		Permission: s.grant.Reason, LUNs: s.lunInfo(), AllLUNs: s.view == nil,
		Age: s.t.reactor.Now().Sub(s.since),
	}
	for _, l := range s.links {
		i.Channels = append(i.Channels, ChannelInfo{ID: uint64(l.id), ChannelStats: l.ch.Stats()})
	}
	return i
}

// ErrNoSession: there is no session of that number.
var ErrNoSession = errors.New("no such session")

// Logout ends a session: its initiator is told, and its channels are closed. It returns when that
// has begun. The initiator may log in again at once.
func (t *Target) Logout(ctx context.Context, id uint64) error {
	found := false
	err := t.reactor.Call(ctx, func() {
		for _, s := range t.sessions {
			if uint64(s.id) != id {
				continue
			}
			found = true
			for _, l := range s.list() {
				l.ch.Close(channel.CauseAdmin)
			}
		}
	})
	if err == nil && !found {
		err = ErrNoSession
	}
	if err != nil {
		return fmt.Errorf("target %s: log out session %d: %w", t.cfg.Name, id, err)
	}
	return nil
}

// Stats is a snapshot of a target.
type Stats struct {
	// Accepted logins, Refused ones, and those that Abandoned the attempt before the answer.
	Accepted, Refused, Abandoned uint64
	// RefusedBy counts refusals by the reason that the initiator was told.
	RefusedBy map[string]uint64
	// Unlogged counts log lines that found no room.
	Unlogged uint64
	// Sessions and Channels count what there is now, Pending the logins that have been promised a channel.
	Sessions, Channels, Pending int
	// Use is how much of the limits of channels is in use: the target's first, then those of ports with channels, by name.
	Use []ChannelUse
	// Receives are the shared receives of the devices that share some.
	Receives []ReceiveUse
	// Reactor is the reactor's.
	Reactor conn.ReactorStats
	// Arenas are those of the units, by name, that of LUNs without a unit, and that of indirect tables.
	Arenas map[string]ioctx.ArenaStats
}

// Stats returns a snapshot.
func (t *Target) Stats(ctx context.Context) (Stats, error) {
	s := Stats{
		Accepted: t.counts.accepted.Load(), Refused: t.counts.refused.Load(), Abandoned: t.counts.abandoned.Load(),
		Unlogged: t.counts.unlogged.Load(), Arenas: make(map[string]ioctx.ArenaStats),
	}
	t.counts.mu.Lock()
	s.RefusedBy = maps.Clone(t.counts.reasons)
	t.counts.mu.Unlock()
	pools := t.openPools()
	err := t.reactor.Call(ctx, func() {
		s.Receives = receiveUse(pools)
		s.Sessions, s.Channels, s.Pending, s.Reactor = len(t.sessions), t.links, t.promised, t.reactor.Stats()
		s.Use = t.channelUse()
		s.Arenas[t.small.Name()] = t.small.Stats()
		s.Arenas["tables"] = t.reactor.TableStats()
		t.luns.each(func(m *mapped) { s.Arenas[m.arena.Name()] = m.arena.Stats() })
	})
	return s, err
}
