package main

import (
	"context"
	"errors"
	"os"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

type authOpener struct{}

func (authOpener) Open(_ context.Context, m map[string]string) (auth.Authorizer, error) {
	closed, err := config(m)
	if err != nil {
		return nil, &auth.Error{Code: auth.CodeConfig, Err: err}
	}
	a := &authorizer{closed: closed}
	if _, mute := m["mute"]; mute {
		return struct{ auth.Authorizer }{a}, nil
	}
	return a, nil
}

type authorizer struct {
	closed string
	notify func(auth.Change)
}

func (a *authorizer) Watch(notify func(auth.Change)) { a.notify = notify }

func (a *authorizer) Notice() string { return "test\nauthoriser" }

func (a *authorizer) Close() error { return closing(a.closed) }

func (a *authorizer) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	yes := auth.Decision{Allow: true, Reason: l.Device, LUNs: []auth.LUN{{LUN: 3, Name: "disk", ReadOnly: true}}, Quota: auth.Quota{Channels: l.Port, QueueDepth: int(l.PKey)}}
	switch l.Initiator[15] {
	case askRefuse:
		return auth.Decision{Reason: "not " + l.Names()[0]}, nil
	case askFail:
		return yes, &auth.Error{Code: auth.CodeUnavailable, Err: errors.New("the directory is down")}
	case askHang:
		<-ctx.Done()
		return yes, &auth.Error{Code: auth.CodeAborted, Err: ctx.Err()}
	case askExit:
		os.Exit(7)
	case askBroken:
		yes.LUNs = append(yes.LUNs, yes.LUNs[0])
	case askChange:
		a.notify(auth.Change{Initiators: []auth.ID{l.Initiator}, Revoke: true, Reason: "as asked"})
	case askChanges:
		for range 1000 {
			a.notify(auth.Change{Initiators: []auth.ID{l.Initiator}})
		}
	}
	return yes, nil
}
