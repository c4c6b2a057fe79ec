package main

import (
	"time"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// Plugins implements admin.Source.
func (s source) Plugins() *adminpb.PluginsReply {
	r := &adminpb.PluginsReply{}
	if a := s.d.auth; a != nil {
		r.Plugins = append(r.Plugins, a.describe())
	}
	if p := s.d.planner; p != nil {
		r.Plugins = append(r.Plugins, p.describe())
	}
	if !s.d.made.Load() {
		return r
	}
	for _, k := range s.d.disks {
		if k.shared == nil {
			r.Plugins = append(r.Plugins, k.plugin())
		}
	}
	for _, p := range s.d.shared {
		r.Plugins = append(r.Plugins, p.describe())
	}
	return r
}

// describe shows the process that several disks share, by what each of them says of it.
func (s *sharedProcess) describe() *adminpb.Plugin {
	all := &adminpb.Plugin{}
	for i, k := range s.members {
		p := k.plugin()
		luns, waiting, flying, oldest := all.Luns, all.RequestsWaiting, all.RequestsFlying, all.OldestMs
		if i == 0 || all.Pid == 0 {
			all = p // one that is open knows more
		}
		all.Luns = append(luns, uint32(k.cfg.LUN))
		all.RequestsWaiting, all.RequestsFlying, all.OldestMs = waiting+p.RequestsWaiting, flying+p.RequestsFlying, max(oldest, p.OldestMs)
	}
	all.Name = s.executable
	return all
}

func pluginOf(kind, name, executable string, s pluginhost.Status) *adminpb.Plugin {
	return &adminpb.Plugin{
		Kind: kind, Name: name, Executable: executable, Path: s.Path, State: s.State.String(), StateSeconds: int64(time.Since(s.Since).Seconds()),
		Pid: uint32(s.PID), Restarts: s.Restarts, LastError: s.LastError, Notice: s.Notice, About: s.About,
		StalledMs: uint64(s.Stalled.Milliseconds()),
	}
}

// describe shows the plugin. What it is asked is with it at once.
func (c *control[P]) describe() *adminpb.Plugin {
	p := pluginOf(c.kind, c.kind, c.plugin, c.snapshot())
	n, oldest := c.asked.open()
	p.RequestsFlying, p.OldestMs = uint64(n), uint64(oldest.Milliseconds())
	return p
}

// plugin shows the disk's plugin.
func (k *disk) plugin() *adminpb.Plugin {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := pluginOf("backstore", k.cfg.Name, k.cfg.Plugin, k.pluginStatus())
	p.Luns = []uint32{uint32(k.cfg.LUN)}
	if k.parts == nil {
		return p
	}
	p.Notice = k.parts.device.Info().Notice
	g := k.parts.guard.Stats()
	p.RequestsWaiting, p.RequestsFlying, p.OldestMs = uint64(g.Waiting), uint64(g.Flying), uint64(g.Oldest.Milliseconds())
	return p
}

// pluginStatus is that of the plugin, or of the attempts to open the disk. The caller holds mu.
func (k *disk) pluginStatus() pluginhost.Status {
	switch {
	case k.parts != nil:
		return k.parts.plugin.Status()
	case k.state == opening:
		return pluginhost.Status{State: pluginhost.StateStarting, Since: k.since}
	case k.state == closed:
		return pluginhost.Status{State: pluginhost.StateClosed, Since: k.since}
	}
	return pluginhost.Status{State: pluginhost.StateDown, Since: k.since, LastError: k.state}
}

// planned shows the disk to a planner.
func (k *disk) planned() ioctx.Unit {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := ioctx.Unit{LUN: k.cfg.LUN, Name: k.cfg.Name}
	if k.parts != nil {
		i := k.parts.device.Info()
		u.MaxTransfer, u.OptimalTransfer = i.MaxTransfer, i.OptimalTransfer
	}
	return u
}
