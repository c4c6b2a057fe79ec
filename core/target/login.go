package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// The causes of refusals, for logs and counts.
var (
	errStopped  = errors.New("the target is stopping")
	errStranger = errors.New("the initiator port has channels from another address")
)

// refusal is why a login is refused: what the initiator is told, and the true cause.
type refusal struct {
	reason srp.RejReason
	cause  error
}

func (r refusal) refused() bool { return r.cause != nil }

// parseLogin reads the request in the form that its connection calls for. The request returned with
// an error has the tag, if there was one.
func parseLogin(req rdma.ConnRequest) (srp.LoginReq, error) {
	if req.Info().IPAddressed {
		return srp.ParseLoginReqRDMA(req.Private())
	}
	return srp.ParseLoginReq(req.Private())
}

// login examines one request and answers it.
func (t *Target) login(req rdma.ConnRequest) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Limits.LoginTime)
	defer cancel()
	r, err := parseLogin(req)
	if err != nil {
		t.refuse(req, &r, refusal{srp.RejNoReason, err})
		return
	}
	if why := t.admit(ctx, req, &r); why.refused() {
		t.refuse(req, &r, why)
	}
}

// admit takes a login through its checks, cheap ones first, and accepts it.
func (t *Target) admit(ctx context.Context, req rdma.ConnRequest, r *srp.LoginReq) refusal {
	if _, reason, ok := channel.CheckLogin(r, &t.planned.Load().policy, 0); !ok {
		return refusal{reason, because(r, reason)}
	}
	if req.Info().Reads == 0 {
		return refusal{srp.RejResources, readless(req.Device())}
	}
	revision := t.revision.Load()
	grant, why := t.authorize(ctx, req, r)
	if why.refused() {
		return why
	}
	a := &admission{t: t, req: req, login: r, grant: grant, revision: revision, key: nexusKey{r.Initiator, r.Target}}
	info := req.Info()
	a.port = portOfConn(&info)
	if why = a.reserveOnce(ctx); why.refused() {
		return why
	}
	why = a.accept(ctx)
	if !why.refused() && a.stale {
		t.ask([]srp.PortID{r.Initiator})
	}
	return why
}

// because tells why a login is refused: in the reason's words, and where those say too little in others.
func because(r *srp.LoginReq, reason srp.RejReason) error {
	if reason == srp.RejNexus && r.Initiator.IsZero() {
		return errors.New("the initiator's port id is zero, as ib_srp's is over iWARP by siw: give it an initiator_ext")
	}
	return fmt.Errorf("%v", reason)
}

// readless tells why no RDMA READ can be made for an initiator, so that what it writes could never be fetched: the first attempt would end
// the channel. It is better refused at login than then, again and again.
func readless(dev rdma.Device) error {
	if dev.Attr().MaxReads == 0 {
		return fmt.Errorf("the device %s makes no RDMA READs, with which data is fetched: serve logins on another one", dev.Name())
	}
	return errors.New("the initiator lets no RDMA READ be outstanding, with which its data is fetched: its request for a connection must have responder resources of 1 or more")
}

func (t *Target) authorize(ctx context.Context, req rdma.ConnRequest, r *srp.LoginReq) (Grant, refusal) {
	if t.cfg.Authorizer == nil {
		return Grant{}, refusal{}
	}
	grant, err := t.cfg.Authorizer.Authorize(ctx, Login{
		Initiator: r.Initiator, Target: r.Target, Info: req.Info(), Action: r.Flags.Action(),
	})
	switch {
	case err == nil:
		return grant, refusal{}
	case errors.Is(err, ErrDenied):
		return Grant{}, refusal{srp.RejNexus, err}
	}
	return Grant{}, refusal{srp.RejNoReason, fmt.Errorf("the authoriser gave no answer: %w", err)}
}

// admission is a login that has been authorised.
type admission struct {
	t     *Target
	req   rdma.ConnRequest
	login *srp.LoginReq
	grant Grant
	// revision is the target's before the authoriser was asked, stale tells that it was another when the channel joined.
	revision uint64
	stale    bool
	planned  *planned // the plan in force when the channel was reserved
	key      nexusKey
	port     hcaPort
	terms    channel.Terms
	why      refusal
	// outdated tells that another plan is in force than planned.
	outdated bool
	// pool is what the channel receives from, nil if it has receives of its own; share is what it is promised there.
	pool  *conn.ReceivePool
	share int
}

// reserveOnce reserves under the plan in force, whose receives it sees to before.
func (a *admission) reserveOnce(ctx context.Context) refusal {
	t := a.t
	for {
		// The plan of now: one that came while the authoriser was asked may have shorter responses, which this initiator has perhaps
		// been told of on another channel.
		a.planned, a.outdated = t.planned.Load(), false
		var err error
		if a.pool, err = t.receivePool(ctx, a.req.Device(), &a.planned.plan); err != nil {
			return refusal{srp.RejResources, err}
		}
		if err := t.reactor.Call(ctx, a.reserve); err != nil {
			return refusal{srp.RejResources, errors.Join(errStopped, err)}
		}
		if !a.outdated {
			return a.why
		}
	}
}

// reserve counts the channel, so that no limit is passed however many logins run at once. It runs in
// the reactor's goroutine.
func (a *admission) reserve() {
	t := a.t
	s := t.sessions[a.key]
	existing := t.pending[a.key]
	if s != nil {
		existing += s.nexus.Channels()
	}
	if a.outdated = a.planned != t.planned.Load(); a.outdated {
		return
	}
	policy := a.planned.policyFor(&a.grant)
	terms, reason, ok := channel.CheckLogin(a.login, &policy, existing)
	if !ok {
		a.why = refusal{reason, fmt.Errorf("%v: it has %d", reason, existing)}
		return
	}
	var leaving []*link
	if terms.Replace && s != nil {
		leaving = s.links
	}
	first := existing == 0 || terms.Replace
	if a.why = t.room(a.port, first, leaving); a.why.refused() {
		return
	}
	if terms.Replace && s != nil && !t.cfg.ReplaceFromAnywhere && !s.from(a.req.Info()) {
		a.why = refusal{srp.RejNexus, errStranger}
		return
	}
	if a.pool != nil {
		if terms.Rsp.Delta, a.why = a.reserveReceives(terms.Rsp.Delta, first, leaving); a.why.refused() {
			return
		}
	}
	a.terms = terms
	t.pending[a.key]++
	t.promised++
	t.used.add(a.port)
}

// unreserve undoes reserve. It runs in the reactor's goroutine.
func (a *admission) unreserve() {
	a.t.promised--
	a.t.used.remove(a.port)
	if a.t.pending[a.key]--; a.t.pending[a.key] == 0 {
		delete(a.t.pending, a.key)
	}
}

// accept makes the channel and answers the request. What fails leaves nothing.
func (a *admission) accept(ctx context.Context) refusal {
	t := a.t
	cs := &conn.Session{Initiator: a.key.initiator, Target: a.key.target}
	ch, err := conn.NewChannel(conn.ChannelConfig{
		Receives: a.pool, Share: a.share, Reactor: t.reactor, Device: a.req.Device(), Plan: a.planned.plan, Terms: a.terms, Held: true,
		Handler: handler{t}, Session: cs, Timing: t.cfg.Timing, OnEnd: t.channelEnded,
	})
	if err == nil {
		var failed error
		err = t.reactor.Call(ctx, func() {
			a.unreserve()
			if failed = ch.Accept(a.req); failed == nil {
				t.join(a, ch, cs)
			} else {
				a.returnShare()
			}
		})
		if err == nil && failed == nil {
			return refusal{}
		}
		if err == nil {
			err = errors.Join(failed, ch.Discard())
			return refusal{srp.RejResources, err}
		}
		err = errors.Join(err, ch.Discard())
	}
	// The reactor may have ended, and its state with it.
	e := t.reactor.Call(context.WithoutCancel(ctx), func() {
		a.unreserve()
		a.returnShare()
	})
	err = errors.Join(err, e)
	return refusal{srp.RejResources, err}
}

// refuse answers a request with SRP_LOGIN_REJ, and says why to the operator.
func (t *Target) refuse(req rdma.ConnRequest, r *srp.LoginReq, why refusal) {
	info := req.Info()
	if errors.Is(why.cause, rdma.ErrGone) {
		t.counts.abandoned.Add(1)
		t.log.Info("login given up by the initiator", "initiator", r.Initiator, "address", info.RemoteName())
		return
	}
	t.counts.refuse(why.reason.String())
	t.log.Warn("login refused", "initiator", r.Initiator, "target", r.Target, "address", info.RemoteName(), "gid", info.RemoteGID,
		"reason", why.reason, "cause", why.cause)
	rej := channel.Reject(r.Tag, why.reason)
	if err := req.Reject(rdma.RejectConsumer, rej.Append(nil)); err != nil && !errors.Is(err, rdma.ErrGone) {
		t.log.Warn("a refusal could not be sent", "initiator", r.Initiator, "address", info.RemoteName(), "error", err)
	}
}
