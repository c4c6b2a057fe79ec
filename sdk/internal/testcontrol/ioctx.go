package main

import (
	"context"
	"errors"
	"os"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

type ioctxOpener struct{}

func (ioctxOpener) Open(_ context.Context, m map[string]string) (ioctx.Planner, error) {
	closed, err := config(m)
	if err != nil {
		return nil, &ioctx.Error{Code: ioctx.CodeConfig, Err: err}
	}
	p := &planner{closed: closed}
	if _, mute := m["mute"]; mute {
		return struct{ ioctx.Planner }{p}, nil
	}
	return p, nil
}

type planner struct {
	closed string
	notify func(string)
}

func (p *planner) Watch(notify func(string)) { p.notify = notify }

func (p *planner) Notice() string { return "test planner" }

func (p *planner) Close() error { return closing(p.closed) }

func (p *planner) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	out := s.Default
	switch s.Memory {
	case askFail:
		return out, &ioctx.Error{Code: ioctx.CodeUnavailable, Err: errors.New("no idea")}
	case askHang:
		<-ctx.Done()
		return out, ctx.Err()
	case askExit:
		os.Exit(7)
	case askBroken:
		out.Credits = 1
	case askChange:
		p.notify("as\nasked")
	case askChanges:
		for range 1000 {
			p.notify("again")
		}
	}
	return out, nil
}

func (p *planner) Replan(_ context.Context, s ioctx.Situation, _ ioctx.Pressure) (ioctx.Plan, error) {
	out := s.InForce
	out.Credits /= 2
	return out, nil
}
