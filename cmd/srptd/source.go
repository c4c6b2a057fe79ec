package main

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/target"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// askTime bounds how long the reactor may take to answer the operator.
const askTime = 5 * time.Second

// source shows the daemon to the control interface.
type source struct{ d *daemon }

// Status implements admin.Source.
func (s source) Status() *adminpb.StatusReply {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	c := s.d.cfg
	r := &adminpb.StatusReply{
		Plugins: s.Plugins().Plugins,
		Version: admin.Version, Provider: c.Provider, IdExt: hex64(c.Target.IDExt), IocGuid: hex64(c.Target.IOCGUID),
		UptimeSeconds: int64(time.Since(s.d.begin).Seconds()), ConfigFile: c.File,
	}
	if !s.d.made.Load() {
		return r // it waits for its plugins
	}
	st, err := s.d.target.Stats(ctx)
	if err != nil {
		r.Counters = map[string]uint64{"status_unanswered": 1}
		s.d.log.Warn("the reactor does not answer", "error", err)
	} else {
		r.Sessions, r.RefusedLogins, r.Counters = uint32(st.Sessions), st.RefusedBy, engineCounters(&st)
		for _, u := range st.Use {
			r.ChannelUse = append(r.ChannelUse, &adminpb.ChannelUse{
				Device: u.Device, Port: uint32(u.Port), InUse: uint32(u.InUse), Limit: uint32(u.Limit), Reserved: uint32(u.Reserved),
			})
		}
	}
	maps.Copy(r.Counters, processCounters())
	state := "waits until every LUN has been tried"
	if s.d.listening.Load() {
		state = "listening"
	}
	for _, l := range s.d.target.Listening() {
		r.Listeners = append(r.Listeners, &adminpb.Listener{Address: l.Addr.String(), Device: l.Device, State: state})
	}
	for _, k := range s.d.disks {
		r.Luns = append(r.Luns, k.status())
	}
	for _, svc := range s.d.target.Waiting() {
		r.Listeners = append(r.Listeners, &adminpb.Listener{Address: svc.Addr.String(), State: "waits for a device that has the address"})
	}
	problems := portProblems(s.d.table.HCAs())
	for _, dev := range s.d.served() {
		r.Devices = append(r.Devices, &adminpb.Device{Name: dev.Name(), Counters: dev.Stats(), Problems: problems[dev.Name()]})
	}
	return r
}

func engineCounters(st *target.Stats) map[string]uint64 {
	m := map[string]uint64{
		"logins_accepted": st.Accepted, "logins_refused": st.Refused, "logins_abandoned": st.Abandoned, "log_lines_lost": st.Unlogged,
		"channels": uint64(st.Channels), "reactor_turns": st.Reactor.Turns, "reactor_parks": st.Reactor.Parks,
		"completions": st.Reactor.Completions,
	}
	for _, r := range st.Receives {
		m["shared_receives_"+r.Device] = uint64(r.Depth)
		m["shared_receives_"+r.Device+"_promised"] = uint64(r.Promised)
		m["shared_receives_"+r.Device+"_held"] = uint64(r.Held)
	}
	for name, a := range st.Arenas {
		m["arena_"+name+"_bytes"] = a.Size
		m["arena_"+name+"_held"] = uint64(a.Held)
		m["arena_"+name+"_waited"] = a.Waited
		m["arena_"+name+"_timed_out"] = a.TimedOut
		m["arena_"+name+"_faults"] = a.Faults
		m["arena_"+name+"_quarantined_bytes"] = a.Quarantined
	}
	return m
}

// processCounters are what the process itself has in use. What cannot be counted is left out.
func processCounters() map[string]uint64 {
	m := map[string]uint64{"process_goroutines": uint64(runtime.NumGoroutine())}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		m["process_open_files"] = uint64(len(list) - 1) // less the one that lists them
	}
	return m
}

// status shows a disk.
func (k *disk) status() *adminpb.Lun {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := &adminpb.Lun{
		Lun: uint32(k.cfg.LUN), Name: k.cfg.Name, Plugin: k.cfg.Plugin, State: k.state, Serial: k.serial(),
		Naa: strings.TrimPrefix(k.identity().NAA.String(), "naa."), ReadOnly: k.cfg.ReadOnly,
	}
	if k.parts == nil {
		return l
	}
	info := k.parts.device.Info()
	l.Blocks, l.BlockSize, l.Notice = info.Blocks, info.BlockSize, info.Notice
	l.ReadOnly = info.ReadOnly
	if p := k.parts.plugin.Status(); p.State != pluginhost.StateRunning || k.parts.store.Waiting() {
		l.State = "waiting for its plugin, which is " + p.State.String()
		if p.LastError != "" {
			l.State += ": " + p.LastError
		}
	}
	l.Health = k.health.Condition.String()
	if k.health.Text != "" {
		l.Health += ": " + k.health.Text
	}
	if info.Powers != 0 {
		l.Powers = strings.Split(info.Powers.String(), ", ")
	}
	l.Counters = k.parts.counters()
	return l
}

func (p *parts) counters() map[string]uint64 {
	g, u, q, ps := p.guard.Stats(), p.device.Stats(), p.queue.Counters(), p.plugin.Status()
	m := map[string]uint64{
		"commands": u.Commands, "check_conditions": u.CheckConditions, "aborted": u.Aborted,
		"reads": g.Reads, "writes": g.Writes, "flushes": g.Flushes, "bytes_read": g.BytesRead, "bytes_written": g.BytesWritten,
		"store_refused": g.Refused, "store_expired": g.Expired, "store_overdue": g.Overdue, "store_breaches": g.Breaches,
		"store_waiting": uint64(g.Waiting), "store_flying": uint64(g.Flying), "store_oldest_ms": uint64(g.Oldest.Milliseconds()),
		"plugin_restarts": ps.Restarts, "plugin_resent": q.Resent, "plugin_doorbells": q.Rings,
	}
	for code, n := range g.Failed {
		if n > 0 {
			m["failed_"+strings.ReplaceAll(backstore.Code(code).String(), " ", "_")] = n
		}
	}
	maps.DeleteFunc(m, func(_ string, v uint64) bool { return v == 0 })
	return m
}

// Sessions implements admin.Source.
func (s source) Sessions() *adminpb.SessionsReply {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	r := &adminpb.SessionsReply{}
	if !s.d.made.Load() {
		return r
	}
	list, err := s.d.target.Sessions(ctx)
	if err != nil {
		s.d.log.Warn("the reactor does not answer", "error", err)
	}
	for _, i := range list {
		r.Sessions = append(r.Sessions, session(&i))
	}
	return r
}

func session(i *target.SessionInfo) *adminpb.Session {
	s := &adminpb.Session{
		Id: i.ID, InitiatorPortId: i.Initiator.String(), TargetPortId: i.Target.String(), AgeSeconds: int64(i.Age.Seconds()),
		Permission: i.Permission, ReadOnly: i.ReadOnly, AllLuns: i.AllLUNs, MaxChannels: uint32(i.MaxChannels), QueueDepth: uint32(i.QueueDepth),
		ChannelLimit: uint32(i.ChannelLimit),
	}
	for _, l := range i.LUNs {
		s.Luns = append(s.Luns, &adminpb.SessionLun{Lun: uint32(l.LUN), Name: l.Unit, ReadOnly: l.ReadOnly})
	}
	for _, c := range i.Channels {
		s.Channels = append(s.Channels, &adminpb.Channel{
			Qpn: c.Info.RemoteQPN, Local: c.Info.LocalName(), Remote: c.Info.RemoteName(), Device: c.Info.Device,
			State: c.State.String(), PathMtu: uint32(c.Info.PathMTU), Credits: int64(c.Window), InFlight: c.Active,
			Commands: c.Protocol.Commands, BytesIn: c.BytesIn, BytesOut: c.BytesOut,
			TaskMgmt: c.Protocol.TaskMgmt, Tables: c.Protocol.Tables,
		})
	}
	return s
}

// Logout implements admin.Source.
func (s source) Logout(ctx context.Context, id uint64) error {
	if !s.d.made.Load() {
		return admin.ErrNoSession
	}
	err := s.d.target.Logout(ctx, id)
	if errors.Is(err, target.ErrNoSession) {
		return admin.ErrNoSession
	}
	return err
}

// ConnectInfo implements admin.Source.
func (s source) ConnectInfo() *adminpb.ConnectInfoReply {
	r := &adminpb.ConnectInfoReply{}
	if !s.d.made.Load() {
		return r
	}
	plan := s.d.target.Plan()
	for _, l := range s.d.target.Listening() {
		c := s.d.controller(&plan, l.ID)
		r.Infos = append(r.Infos, connectInfos(&c, &l)...)
	}
	return r
}

// connectInfos is how to log in at an address, or, at a port of InfiniBand, in each partition.
func connectInfos(c *mad.Controller, l *target.Listening) (list []*adminpb.ConnectInfo) {
	svc := c.Services[0] // which is an SRP target's
	if l.ID == 0 {
		line, _ := c.AddTargetAt(svc, dest(l.Addr))
		return []*adminpb.ConnectInfo{{Address: l.Addr.String(), AddTarget: line}}
	}
	for _, k := range l.PKeys {
		if k != 0 {
			line, _ := c.AddTarget(svc, l.GID, k)
			list = append(list, &adminpb.ConnectInfo{Address: l.GID.String(), AddTarget: line})
		}
	}
	return list
}

// dest writes an address as the initiator's add_target file reads it. The zone of a link-local address is the initiator's
// own interface, which only its operator knows.
func dest(a netip.AddrPort) string {
	if a.Addr().Zone() != "" {
		a = netip.AddrPortFrom(a.Addr().WithZone("INTERFACE"), a.Port())
	}
	return a.String()
}
