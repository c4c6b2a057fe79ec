package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/hca"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// controller is this target as those who look for it, and those who are told how to log in, see it: at a service id.
func (d *daemon) controller(plan *ioctx.Plan, service uint64) mad.Controller {
	c := d.cfg
	return mad.Controller{
		GUID: ib.GUID(c.Target.IOCGUID), Protocol: mad.SRP, SendDepth: uint16(min(plan.Credits, 1<<16-1)), ReadDepth: 16,
		SendSize: plan.MaxRequestIU, TransferSize: uint32(d.maxTransfer), Operations: mad.SRPOperations, ID: "gosrpt",
		Services: []mad.Service{mad.SRPService(c.Target.IDExt, service)},
	}
}

// byServiceID tells whether logins by service id are taken where there is InfiniBand.
func (d *daemon) byServiceID() bool {
	return d.cfg.Provider == config.ProviderVerbs && d.cfg.Verbs.ServiceID
}

// agents are what the ports tell of a plan: those of InfiniBand, where they differ, name the service id that is listened to.
func (d *daemon) agents(plan *ioctx.Plan) (all, ib *mad.Agent, err error) {
	if all, err = d.agent.with(d.controller(plan, cm.ServiceID(d.cfg.Port))); err == nil && d.byServiceID() {
		ib, err = d.ibAgent.with(d.controller(plan, rdma.ServiceID(d.cfg.Port)))
	}
	return all, ib, err
}

// madAgent is an agent, if there is one yet.
type madAgent struct{ *mad.Agent }

// with is the agent that answers for a controller from now on.
func (a madAgent) with(c mad.Controller) (*mad.Agent, error) {
	if a.Agent == nil {
		return mad.New(mad.Config{}, []mad.Controller{c})
	}
	return a.Update([]mad.Controller{c})
}

// announce has the ports tell of a plan that is in force from now on.
func (d *daemon) announce(plan *ioctx.Plan) error {
	all, ib, err := d.agents(plan)
	if err == nil {
		d.agent, d.ibAgent = madAgent{all}, madAgent{ib}
		d.table.SetAgents(all, ib)
	}
	return err
}

// follow keeps the table of HCAs from now on. Those that are there have been given to the target already.
func (d *daemon) followDevices(ctx context.Context) error {
	plan := d.target.Plan()
	all, ib, err := d.agents(&plan)
	if err != nil {
		return err
	}
	d.agent, d.ibAgent = madAgent{all}, madAgent{ib}
	d.table = hca.New(hca.Config{Provider: d.provider, User: d.target.Devices(), Agent: all, IBAgent: ib, Log: d.log})
	if len(d.devices) == 0 {
		d.log.Warn("no network interface to serve yet: none is up, or none has a configured address; it is served as soon as there is one",
			"listen", d.cfg.Listen)
	}
	return d.table.Start(ctx)
}

// Fabric implements admin.Source.
func (s source) Fabric() *adminpb.FabricReply {
	r := &adminpb.FabricReply{Rules: s.d.cfg.RoCE.Interfaces}
	if !s.d.made.Load() {
		return r
	}
	r.IgnoredEvents = s.d.table.Ignored()
	for _, h := range s.d.table.HCAs() {
		m := &adminpb.Hca{Name: h.Name, NodeGuid: h.Attr.NodeGUID.String(), Serving: h.Serving, Problem: h.Problem, Counters: h.Counters}
		for i := range h.Ports {
			m.Ports = append(m.Ports, portOf(&h.Ports[i], h.Attr.IWARP))
		}
		r.Hcas = append(r.Hcas, m)
	}
	return r
}

func portOf(p *hca.PortStatus, iwarp bool) *adminpb.HcaPort {
	link := p.Link.String()
	if iwarp {
		link += ", iWARP"
	}
	m := &adminpb.HcaPort{
		Num: uint32(p.Num), Guid: p.GUID.String(), State: p.State.String(), Link: link, Mtu: uint32(p.MTU),
		Lid: uint32(p.LID), Lmc: uint32(p.LMC), SmLid: uint32(p.SMLID), SinceSeconds: int64(time.Since(p.Since).Seconds()), Reads: p.Reads,
		Problem: p.Problem, Discovery: p.Discovery, DiscoveryProblem: p.DiscoveryProblem,
		Answered: p.Answered, Dropped: p.Dropped, Failed: p.Failed,
	}
	for _, g := range p.GIDs {
		m.Gids = append(m.Gids, g.String())
	}
	for _, a := range p.Addrs {
		m.Addresses = append(m.Addresses, a.String())
	}
	for _, k := range p.PKeys {
		m.Pkeys = append(m.Pkeys, uint32(k))
	}
	return m
}

// portProblems are those of each device's ports, by the device's name.
func portProblems(list []hca.HCA) map[string][]string {
	m := make(map[string][]string)
	for _, h := range list {
		for _, p := range h.Ports {
			if p.Problem != "" {
				m[h.Name] = append(m[h.Name], fmt.Sprintf("port %d cannot be read: %s", p.Num, p.Problem))
			}
			if !p.Discovery && p.DiscoveryProblem != "" && !h.Attr.IWARP { // which knows none
				m[h.Name] = append(m[h.Name], fmt.Sprintf("port %d does not answer discovery: %s", p.Num, p.DiscoveryProblem))
			}
		}
	}
	return m
}

// Events implements admin.Source.
func (s source) Events(ctx context.Context, after uint64, follow bool) ([]*adminpb.Event, error) {
	if !s.d.made.Load() {
		return nil, nil
	}
	list := s.d.table.Events(after)
	if len(list) == 0 && follow {
		var err error
		if list, err = s.d.table.NextEvents(ctx, after); err != nil {
			return nil, err
		}
	}
	var out []*adminpb.Event
	for _, r := range list {
		out = append(out, &adminpb.Event{Seq: r.Seq, UnixMs: r.Time.UnixMilli(), Device: r.Event.Device, Port: uint32(r.Event.Port),
			Event: r.Event.Kind.String(), Action: r.Action})
	}
	return out, nil
}
