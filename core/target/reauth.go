package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/nexus"
	"github.com/gosrpt/gosrpt/core/srp"
)

// askAgain is when sessions are asked about again for which there was no answer.
const askAgain = time.Second

// maxAsked bounds the initiators that wait to be asked about one by one; of more, all are.
const maxAsked = 1024

// inquiry is what the authoriser is still to be asked about.
type inquiry struct {
	kick chan struct{} // has room for one: something was added

	mu         sync.Mutex
	all        bool
	initiators map[srp.PortID]bool
}

func (q *inquiry) add(ids []srp.PortID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.initiators == nil {
		q.initiators = make(map[srp.PortID]bool)
	}
	for _, id := range ids {
		q.initiators[id] = true
	}
	if q.all = q.all || len(ids) == 0 || len(q.initiators) > maxAsked; q.all {
		clear(q.initiators)
	}
}

// take returns what was added; none named and some true means all.
func (q *inquiry) take() (ids []srp.PortID, some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	some = q.all || len(q.initiators) > 0
	for id := range q.initiators {
		ids = append(ids, id)
	}
	q.all = false
	clear(q.initiators)
	return ids, some
}

// ask has followAuthorizer ask about the sessions of some initiators, of all if none is named.
func (t *Target) ask(initiators []srp.PortID) {
	t.asked.add(initiators)
	select {
	case t.asked.kick <- struct{}{}:
	default:
	}
}

// followAuthorizer asks until each question has an answer.
func (t *Target) followAuthorizer() {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.asked.kick:
		case <-again.C:
		}
		ids, some := t.asked.take()
		if !some {
			continue
		}
		ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Limits.LoginTime)
		left, err := t.reauthorize(ctx, ids)
		cancel()
		if err != nil && t.ctx.Err() == nil {
			t.log.Warn("the authoriser did not answer about sessions, which stay as they are until it does", "initiators", len(left), "error", err)
			t.asked.add(left)
			again.Reset(askAgain)
		}
	}
}

// ErrUnanswered: the authoriser gave no answer about some sessions, which stay as they are.
var ErrUnanswered = errors.New("the authoriser gave no answer")

// Reauthorize asks the authoriser again about the sessions of some initiators, of all if none is named, and does what it says:
// channels that are not permitted any more are closed, the others' sessions get what is granted now. It returns when that has begun.
// An error that wraps ErrUnanswered tells that some sessions stay as they are for want of an answer.
func (t *Target) Reauthorize(ctx context.Context, initiators ...srp.PortID) error {
	t.revision.Add(1)
	_, err := t.reauthorize(ctx, initiators)
	return err
}

// question is what a channel's login was, as far as it matters to the authoriser.
type question struct {
	key    nexusKey
	gid    ib.GID
	addr   netip.Addr
	device string
	port   int
	pkey   uint16
	single bool
}

// about is one question, and the channels that it is about.
type about struct {
	login Login
	links []linkName
	last  bool // the newest channel of its session is among them
}

type linkName struct {
	key nexusKey
	id  nexus.Channel
}

// reauthorize returns, with an error, the initiators without an answer.
func (t *Target) reauthorize(ctx context.Context, initiators []srp.PortID) (left []srp.PortID, err error) {
	if t.cfg.Authorizer == nil {
		return nil, nil
	}
	var list []*about
	if err := t.reactor.Call(ctx, func() { list = t.questions(initiators) }); err != nil {
		return initiators, fmt.Errorf("target %s: ask about sessions: %w", t.cfg.Name, err)
	}
	var errs []error
	for _, q := range list {
		grant, err := t.cfg.Authorizer.Authorize(ctx, q.login)
		denied := errors.Is(err, ErrDenied)
		if err != nil && !denied {
			errs = append(errs, fmt.Errorf("%v: %w: %w", q.login.Initiator, ErrUnanswered, err))
			left = append(left, q.login.Initiator)
			continue
		}
		if e := t.reactor.Call(ctx, func() { t.answered(q, grant, denied, err) }); e != nil {
			errs = append(errs, e)
			left = append(left, q.login.Initiator)
		}
	}
	if len(errs) == 0 {
		return nil, nil
	}
	return left, fmt.Errorf("target %s: ask about sessions: %w", t.cfg.Name, errors.Join(errs...))
}

// questions are those to ask, each once. It runs in the reactor's goroutine.
func (t *Target) questions(initiators []srp.PortID) []*about {
	found := make(map[question]*about)
	var list []*about
	for key, s := range t.sessions {
		if len(initiators) > 0 && !slices.Contains(initiators, key.initiator) {
			continue
		}
		for i, l := range s.links {
			in := &l.info
			q := question{key, in.RemoteGID, in.Remote.Addr(), in.Device, in.Port, in.PKey, l.single}
			a := found[q]
			if a == nil {
				a = &about{login: Login{Initiator: key.initiator, Target: key.target, Info: *in, Action: l.action()}}
				found[q] = a
				list = append(list, a)
			}
			a.links = append(a.links, linkName{key, l.id})
			a.last = a.last || i == len(s.links)-1
		}
	}
	return list
}

func (l *link) action() srp.MultiChannelAction {
	if l.single {
		return srp.ActionSingle
	}
	return srp.ActionMulti
}

// answered does what an answer says. It runs in the reactor's goroutine, where the channels may be gone.
func (t *Target) answered(q *about, g Grant, denied bool, why error) {
	for _, n := range q.links {
		s := t.sessions[n.key]
		if s == nil {
			return
		}
		l := s.link(n.id)
		switch {
		case l == nil:
		case denied:
			t.revoke(l, why)
		case q.last:
			s.adopt(g)
			return // the links of a question have one session
		}
	}
}

// revoke closes a channel whose permission has ended.
func (t *Target) revoke(l *link, why error) {
	t.tell(func() {
		t.log.Warn("permission withdrawn", "initiator", l.s.key.initiator, "address", l.info.RemoteName(), "gid", l.info.RemoteGID, "cause", why)
	})
	l.ch.Close(channel.CauseAdmin)
}

// Revoke ends the sessions of some initiators, without a question, and says why to the operator. It returns when that has
// begun. Logins of theirs that are under way are asked about again.
func (t *Target) Revoke(ctx context.Context, reason string, initiators ...srp.PortID) error {
	why := fmt.Errorf("%w: %s", ErrDenied, reason)
	t.revision.Add(1)
	err := t.reactor.Call(ctx, func() {
		for key, s := range t.sessions {
			if !slices.Contains(initiators, key.initiator) {
				continue
			}
			for _, l := range s.list() {
				t.revoke(l, why)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("target %s: revoke: %w", t.cfg.Name, err)
	}
	return nil
}
