package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// upgradable is a plugin whose process can be replaced.
type upgradable interface {
	Upgrade(ctx context.Context, o pluginhost.UpgradeOptions) (pluginhost.Upgrade, error)
}

// errNotRunning says that there is nothing to upgrade: the next attempt to start it takes the new executable anyway.
var errNotRunning = errors.New("it is not open, and is tried again with the executable that is there now")

// UpgradePlugin implements admin.Source.
func (s source) UpgradePlugin(ctx context.Context, name, path string) (*adminpb.UpgradePluginReply, error) {
	p, luns, err := s.d.upgradable(name)
	if err != nil {
		return nil, err
	}
	s.d.log.Info("upgrading a plugin", "plugin", name, "path", path)
	u, err := p.Upgrade(ctx, pluginhost.UpgradeOptions{Path: path})
	if err != nil {
		s.d.log.Error("a plugin was not upgraded", "plugin", name, "error", err)
		return nil, err
	}
	pause, waited := u.Worst()
	s.d.log.Info("a plugin was upgraded", "plugin", name, "old", u.Old.Path, "old_pid", u.Old.PID, "new", u.New.Path, "new_pid", u.New.PID,
		"about", u.New.About, "pause", pause, "requests_waited", waited)
	r := &adminpb.UpgradePluginReply{Old: versionOf(u.Old), New: versionOf(u.New)}
	for _, p := range u.Pauses {
		r.Pauses = append(r.Pauses, &adminpb.UpgradePause{
			Lun: luns[p.Store], Microseconds: uint64(p.Time.Microseconds()), RequestsWaited: p.Waited,
		})
	}
	return r, nil
}

func versionOf(v pluginhost.Version) *adminpb.PluginVersion {
	return &adminpb.PluginVersion{Path: v.Path, Pid: uint32(v.PID), About: v.About}
}

// upgradable finds a plugin by the name that Plugins gives it, and the names of its stores.
func (d *daemon) upgradable(name string) (upgradable, map[*pluginhost.Store]string, error) {
	switch {
	case name == "auth" && d.auth != nil:
		p, err := d.auth.current()
		return p, nil, err
	case name == "ioctx" && d.planner != nil:
		p, err := d.planner.current()
		return p, nil, err
	case !d.made.Load():
		return nil, nil, errors.New("the LUNs are not opened yet: try again")
	}
	var found upgradable
	known := false
	luns := map[*pluginhost.Store]string{}
	for _, k := range d.disks {
		if k.shared != nil && k.shared.executable != name || k.shared == nil && k.cfg.Name != name {
			continue
		}
		known = true
		if p, st := k.running(); p != nil {
			found, luns[st] = p, k.cfg.Name
		}
	}
	switch {
	case !known:
		return nil, nil, admin.ErrNoPlugin
	case found == nil:
		return nil, nil, fmt.Errorf("plugin %s: %w", name, errNotRunning)
	}
	return found, luns, nil
}

// running is the disk's plugin and its store there; nil while it is not open.
func (k *disk) running() (*pluginhost.Plugin, *pluginhost.Store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts == nil {
		return nil, nil
	}
	return k.parts.plugin, k.parts.store
}
