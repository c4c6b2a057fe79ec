package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// process is a supervised backstore plugin and the memory that is shared with it, one arena a process.
type process struct {
	mem    *host.Arena
	arena  *ioctx.Arena
	plugin *pluginhost.Plugin
}

// startProcess starts the plugin of disks, which all have the same, with the largest arena that one of them wants.
func (d *daemon) startProcess(ctx context.Context, name string, disks []*disk, log hclog.Logger) (*process, error) {
	c, p, executable := d.cfg, &process{}, disks[0].cfg.Plugin
	var settings []map[string]string // the manifest may restrict the plugin to the files that these name
	size := uint64(0)
	for _, k := range disks {
		settings, size = append(settings, k.cfg.Config), max(size, k.arenaSize())
	}
	err := func() (err error) {
		if p.mem, err = host.NewArena(int(size)); err != nil {
			return err
		}
		if p.arena, err = ioctx.NewArena(ioctx.ArenaConfig{Name: name, Memory: p.mem.Bytes(), MaxWait: d.target.Plan().MaxWait, Fence: p.mem}); err != nil {
			return err
		}
		p.plugin, err = pluginhost.Start(ctx, pluginhost.Config{
			Name: name, Arena: p.mem, Ready: c.Plugin.StartTimeout, Hang: c.Plugin.Hang, Log: log, Settings: settings,
			BackoffMin: d.pause, BackoffMax: d.pause,
			Resolve: func() (string, error) { return pluginhost.Find(c.PluginDirs, executable) },
		})
		return err
	}()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// close frees what there is, last made first. Memory that something still uses stays.
func (p *process) close() error {
	if p.plugin != nil {
		p.plugin.Close()
	}
	if p.arena != nil {
		if err := p.arena.Close(); err != nil {
			return err
		}
	}
	if p.mem == nil {
		return nil
	}
	return p.mem.Close()
}

// sharedProcess is the process of the LUNs of one plugin that share it. It runs while one of them uses it.
type sharedProcess struct {
	executable string
	members    []*disk // does not change once disks are opened

	mu    sync.Mutex // held while the process is started or ended; guards what follows
	proc  *process   // nil without users
	users int
}

// acquire returns the process, which is started if there is none. ctx bounds that.
func (s *sharedProcess) acquire(ctx context.Context, d *daemon) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		p, err := d.startProcess(ctx, s.executable, s.members, d.log.Named("plugin"))
		if err != nil {
			return nil, err
		}
		s.proc = p
	}
	s.users++
	return s.proc, nil
}

// release undoes acquire. The last one ends the process.
func (s *sharedProcess) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	p := s.proc
	s.proc = nil
	return p.close()
}

// share finds the process that the disks of a plugin share.
func (d *daemon) share(k *disk) *sharedProcess {
	i := slices.IndexFunc(d.shared, func(s *sharedProcess) bool { return s.executable == k.cfg.Plugin })
	if i < 0 {
		i = len(d.shared)
		d.shared = append(d.shared, &sharedProcess{executable: k.cfg.Plugin})
	}
	s := d.shared[i]
	s.members = append(s.members, k)
	return s
}
