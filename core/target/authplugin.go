package target

import (
	"context"
	"fmt"

	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/sdk/auth"
)

// Decider is an authoriser behind the contract of sdk/auth, such as a supervised plugin.
type Decider interface {
	Decide(ctx context.Context, l auth.Login) (auth.Decision, error)
}

// PluginAuthorizer is the Authorizer that asks a Decider. Changes that it tells of are for Target.AuthChanged.
type PluginAuthorizer struct{ Decider Decider }

// Authorize asks.
func (p PluginAuthorizer) Authorize(ctx context.Context, l Login) (Grant, error) {
	d, err := p.Decider.Decide(ctx, auth.Login{
		Initiator: auth.ID(l.Initiator), Target: auth.ID(l.Target), SourceGID: auth.ID(l.Info.RemoteGID),
		SourceAddr: auth.PlainAddr(l.Info.Remote.Addr()), Device: l.Info.Device, Port: l.Info.Port, PKey: l.Info.PKey,
		Action: auth.Action(l.Action),
	})
	if err != nil {
		return Grant{}, err
	}
	if !d.Allow {
		return Grant{}, fmt.Errorf("%w: %s", ErrDenied, d.Reason)
	}
	g := Grant{Reason: d.Reason, ReadOnly: d.ReadOnly, Channels: d.Quota.Channels, QueueDepth: d.Quota.QueueDepth}
	if d.AllLUNs {
		return g, nil
	}
	g.LUNs = make([]GrantedLUN, 0, len(d.LUNs))
	for _, u := range d.LUNs {
		g.LUNs = append(g.LUNs, GrantedLUN{LUN: u.LUN, Unit: u.Name, ReadOnly: u.ReadOnly})
	}
	return g, nil
}

// AuthChanged does what a change of the authoriser's mind asks for, and does not wait for it: sessions that are revoked end, and the
// authoriser is asked about the others, again and again until it answers. It may be called from any goroutine but the
// reactor's.
func (t *Target) AuthChanged(c auth.Change) {
	ids := make([]srp.PortID, 0, len(c.Initiators))
	for _, id := range c.Initiators {
		ids = append(ids, srp.PortID(id))
	}
	t.log.Info("the authoriser has changed", "reason", c.Reason, "initiators", len(ids), "revoked", c.Revoke)
	if c.Revoke && len(ids) > 0 {
		if err := t.Revoke(t.ctx, c.Reason, ids...); err != nil && t.ctx.Err() == nil {
			t.log.Error("sessions could not be ended", "error", err)
		}
		return
	}
	t.revision.Add(1)
	t.ask(ids)
}
