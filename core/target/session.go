package target

import (
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/nexus"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// nexusKey names an I_T nexus.
type nexusKey struct{ initiator, target srp.PortID }

// session is an I_T nexus that has channels. It belongs to the reactor's goroutine.
type session struct {
	t       *Target
	key     nexusKey
	id      lu.NexusID
	port    scsi.TargetPort
	grant   Grant
	view    *view // nil: every unit, under the target's numbers
	since   time.Time
	nexus   nexus.Nexus
	links   []*link
	last    nexus.Channel
	acts    []nexus.Action
	running bool

	requests    map[uint32]*conn.TaskManagement
	lastRequest uint32
	// clears are the functions of other nexuses that end commands of this one.
	clears    map[uint32]func()
	lastClear uint32
}

// link is a channel of a session.
type link struct {
	s      *session
	id     nexus.Channel
	ch     *conn.Channel
	info   rdma.ConnInfo
	port   hcaPort
	pool   *conn.ReceivePool // nil if it has receives of its own
	share  int               // of pool
	single bool
	since  time.Time
}

// join enters an accepted channel into its session, which it may begin.
func (t *Target) join(a *admission, ch *conn.Channel, cs *conn.Session) {
	s := t.sessions[a.key]
	if s == nil {
		t.lastNexus++
		s = &session{t: t, key: a.key, id: t.lastNexus, since: t.reactor.Now(), port: t.portOf(a.key.target),
			requests: make(map[uint32]*conn.TaskManagement), clears: make(map[uint32]func())}
		t.sessions[a.key] = s
		s.begin(a.grant)
	} else {
		s.adopt(a.grant)
	}
	a.stale = a.revision != t.revision.Load()
	s.last++
	l := &link{s: s, id: s.last, ch: ch, info: a.req.Info(), port: a.port, pool: a.pool, share: a.share, single: a.login.Flags.Action() == srp.ActionSingle, since: t.reactor.Now()}
	ch.User, cs.User, cs.ID = l, s, uint64(s.id)
	s.links = append(s.links, l)
	t.links++
	t.used.add(l.port)
	t.counts.accepted.Add(1)
	n := len(s.links)
	t.tell(func() {
		t.log.Info("login", "initiator", a.key.initiator, "address", l.info.RemoteName(), "device", l.info.Device, "channels", n, "permission", a.grant.Reason,
			"result", a.terms.Rsp.Flags&srp.ResultMask, "immediate", a.terms.Limits.ImmediateOffset)
	})
	s.step(nexus.Event{Kind: nexus.EvJoin, Channel: l.id, Single: l.single})
}

// portOf describes a target port to the initiators that use it.
func (t *Target) portOf(id srp.PortID) scsi.TargetPort {
	return scsi.TargetPort{ID: id, RelativeID: uint16(1 + slices.Index(t.cfg.PortIDs, id))}
}

// channelEnded takes a channel out of its session, which may end with it. It is the OnEnd of channels.
func (t *Target) channelEnded(ch *conn.Channel) {
	l, ok := ch.User.(*link)
	if !ok {
		return // it ended before it was entered
	}
	s := l.s
	t.links--
	t.used.remove(l.port)
	s.links = slices.DeleteFunc(s.links, func(o *link) bool { return o == l })
	t.reportEnd(l, ch.Stats())
	s.step(nexus.Event{Kind: nexus.EvLeave, Channel: l.id})
	t.checkDrained()
}

// reportEnd logs the end of a channel: as a warning, if something went wrong.
func (t *Target) reportEnd(l *link, st conn.ChannelStats) {
	t.tell(func() {
		write := t.log.Info
		args := []any{"initiator", l.s.key.initiator, "address", l.info.RemoteName(), "cause", st.Cause,
			"age", st.Age.Round(time.Millisecond), "commands", st.Protocol.Commands, "aborted", st.Aborted}
		if st.Err != nil {
			write, args = t.log.Warn, append(args, "error", st.Err)
		}
		if f := st.Fault.String(); f != "" {
			write, args = t.log.Warn, append(args, "fault", f)
		}
		write("channel ended", args...)
	})
}

// list returns the links; it stays as it is while they end.
func (s *session) list() []*link { return slices.Clone(s.links) }

// from tells whether the channels of the session come from the peer of info.
func (s *session) from(info rdma.ConnInfo) bool {
	return !slices.ContainsFunc(s.links, func(l *link) bool { return l.info.RemoteGID != info.RemoteGID })
}

func (s *session) link(id nexus.Channel) *link {
	for _, l := range s.links {
		if l.id == id {
			return l
		}
	}
	return nil
}

// step feeds the nexus an event and carries out what it asks for; called from within, it leaves that
// to the outer call.
func (s *session) step(ev nexus.Event) {
	s.acts = s.nexus.Step(ev, s.acts)
	if s.running {
		return
	}
	s.running = true
	for i := 0; i < len(s.acts); i++ {
		s.do(s.acts[i])
	}
	s.acts = s.acts[:0]
	s.running = false
}

func (s *session) do(a nexus.Action) {
	switch a.Kind {
	case nexus.ActTerminate:
		s.attend(lu.AttnNexusLoss)
		if l := s.link(a.Channel); l != nil {
			l.ch.Close(channel.CauseReplaced)
		}
	case nexus.ActAdmit:
		if l := s.link(a.Channel); l != nil {
			l.ch.Admit()
		}
	case nexus.ActAbort:
		s.abort(a)
	case nexus.ActUnit:
		s.clearOthers(a)
	case nexus.ActAnswer:
		s.answer(a)
	case nexus.ActAttention:
		s.attention(a)
	case nexus.ActCleared:
		done := s.clears[a.Op]
		delete(s.clears, a.Op)
		done()
	case nexus.ActLost:
		s.lost()
	}
}

// attend raises a unit attention of every unit that it sees for this nexus.
func (s *session) attend(at lu.Attention) {
	s.each(func(_ uint16, m *mapped) { m.unit.Device().Attend(s.id, at) })
}

// lost forgets the nexus.
func (s *session) lost() {
	if s.t.sessions[s.key] == s {
		delete(s.t.sessions, s.key)
	}
	s.t.luns.show(s.id, nil)
	s.t.luns.each(func(m *mapped) { m.unit.NexusLost(s.id) })
}
