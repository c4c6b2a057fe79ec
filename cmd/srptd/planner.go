package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	coreioctx "github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// lookEvery is how often it is looked whether the target is short of something, and so the most that the ioctx plugin is
// asked because of it.
const lookEvery = 10 * time.Second

// planner is the ioctx plugin. While it does not answer, the plan in force stays in force.
type planner struct {
	control[*pluginhost.IOCtx]
	d    *daemon
	kick chan struct{} // has room for one: the plugin may plan otherwise than before

	// The following belong to bringUp, and then to follow.
	own  coreioctx.Plan // the configuration's
	due  bool           // a plan was asked for and not answered
	said string         // why the plan in force stayed in force, empty if it did not
	base shortage       // when the plan in force began
	last shortage       // when it was looked at last
}

// shortage counts what there was not enough of, since the start.
type shortage struct{ waited, timedOut, refused uint64 }

func newPlanner(d *daemon, own coreioctx.Plan) *planner {
	p := &planner{d: d, own: own, kick: make(chan struct{}, 1)}
	p.init(d, "ioctx", d.cfg.IOCtx.Plugin, "the ioctx plugin cannot be started, the plan in force stays in force")
	p.launch = func(ctx context.Context) (*pluginhost.IOCtx, error) {
		return pluginhost.StartIOCtx(ctx, pluginhost.IOCtxConfig{
			ControlConfig: p.controlConfig(d, d.cfg.IOCtx.Config), Changed: p.changed,
		})
	}
	return p
}

func (p *planner) changed(reason string) {
	p.log.Info("the plugin may plan otherwise", "reason", reason)
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// first asks for the plan to begin with. Without a usable answer it is the configuration's.
func (p *planner) first(ctx context.Context) coreioctx.Plan {
	plan, err := p.ask(ctx, p.situation(), nil)
	if err != nil {
		p.keep(err)
		return p.own
	}
	return plan
}

// ask asks for a plan, under pressure if there is some.
func (p *planner) ask(ctx context.Context, s ioctx.Situation, pressure *ioctx.Pressure) (plan coreioctx.Plan, err error) {
	proc, err := p.current()
	if err != nil {
		return plan, err
	}
	defer p.asked.begin()()
	var answer ioctx.Plan
	if pressure == nil {
		answer, err = proc.Plan(ctx, s)
	} else {
		answer, err = proc.Replan(ctx, s, *pressure)
	}
	if err != nil {
		return plan, err
	}
	if plan, err = coreioctx.FromContract(answer); err != nil {
		return plan, err
	}
	return plan, p.fits(plan)
}

// errUnfit says that a plan asks for what the target cannot give.
var errUnfit = errors.New("the plan does not fit")

// fits holds a plan against the devices, and against what initiators have been told.
func (p *planner) fits(plan coreioctx.Plan) error {
	for _, dev := range p.d.served() {
		if most := dev.Attr().MaxQPWork; most > 0 && plan.Receives() > most {
			return fmt.Errorf("%w: %d receives of a channel, %s takes %d", errUnfit, plan.Receives(), dev.Name(), most)
		}
	}
	if plan.MaxTransfer < p.d.maxTransfer {
		return fmt.Errorf("%w: transfers of %d bytes, initiators were told of %d: restart to have less", errUnfit, plan.MaxTransfer, p.d.maxTransfer)
	}
	return nil
}

// keep says why the plan in force stays in force. The question is asked again if the answer may be another then.
func (p *planner) keep(err error) {
	bad := errors.Is(err, errUnfit) || errors.Is(err, coreioctx.ErrPlan) || ioctx.CodeOf(err) == ioctx.CodeConfig
	p.due = !bad
	if p.said == err.Error() {
		return
	}
	p.said = err.Error()
	p.log.Warn("the ioctx plugin has no usable plan, the one in force stays in force", "error", err, "asked_again", p.due)
}

// follow asks for a plan when the plugin may plan otherwise, when it did not answer, and when the target is short of something.
func (p *planner) follow() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.kick:
			p.renew(nil)
		case <-look.C:
			pressure := p.look()
			if p.due || pressure != nil {
				p.renew(pressure)
			}
		}
	}
}

// renew asks for a plan and puts it in force.
func (p *planner) renew(pressure *ioctx.Pressure) {
	if p.due {
		pressure = nil // it has not said yet what it plans without
	}
	t := p.d.target
	before := t.Plan()
	s := p.situation()
	s.InForce = before.Contract()
	plan, err := p.ask(p.ctx, s, pressure)
	if p.ctx.Err() != nil {
		return
	}
	if err != nil {
		p.keep(err)
		return
	}
	p.due, p.said = false, ""
	if err := t.SetPlan(plan); err != nil {
		p.log.Warn("the plan of the ioctx plugin cannot be put in force", "error", err)
	} else if plan != before {
		p.base = p.last
		if err := p.d.announce(&plan); err != nil {
			p.log.Warn("discovery goes on to tell of the plan before", "error", err)
		}
	}
}

// look returns what the target is short of, if that has grown since the last look.
func (p *planner) look() *ioctx.Pressure {
	ctx, cancel := context.WithTimeout(p.ctx, askTime)
	defer cancel()
	st, err := p.d.target.Stats(ctx)
	if err != nil {
		return nil // the reactor is busy, or has ended
	}
	pressure := pressureOf(&st)
	now := shortage{pressure.Waited, pressure.TimedOut, pressure.Refused}
	grown := now.waited > p.last.waited || now.timedOut > p.last.timedOut || now.refused > p.last.refused
	p.last = now
	if !grown {
		return nil
	}
	pressure.Waited -= min(p.base.waited, now.waited)
	pressure.TimedOut -= min(p.base.timedOut, now.timedOut)
	pressure.Refused -= min(p.base.refused, now.refused)
	return pressure
}

// pressureOf counts since the start.
func pressureOf(st *target.Stats) *ioctx.Pressure {
	p := &ioctx.Pressure{Channels: st.Channels, Refused: st.RefusedBy[srp.RejResources.String()]}
	for _, a := range st.Arenas {
		p.Waited += a.Waited
		p.TimedOut += a.TimedOut
		p.Arena += a.Size
		p.ArenaFree += a.Free
	}
	return p
}

// situation is what a plan is made for, but for the plan in force.
func (p *planner) situation() ioctx.Situation {
	c := p.d.cfg
	s := ioctx.Situation{Default: p.own.Contract(), Channels: c.Login.TotalChannels, ChannelsPerNexus: c.Login.MaxChannels}
	for _, dev := range p.d.served() {
		is := ioctx.Device{Name: dev.Name(), MaxQueueDepth: dev.Attr().MaxQPWork}
		if ports, err := dev.Ports(); err == nil {
			for _, port := range ports {
				is.MTU = max(is.MTU, port.MTU)
			}
		}
		s.Devices = append(s.Devices, is)
	}
	if len(p.d.disks) == 0 { // the first question comes before the disks
		for _, l := range c.LUNs {
			s.Units = append(s.Units, ioctx.Unit{LUN: l.LUN, Name: l.Name})
		}
	}
	for _, k := range p.d.disks {
		s.Units = append(s.Units, k.planned())
	}
	return s
}
