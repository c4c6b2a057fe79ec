package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultStep is UpgradeOptions.Step where none is given.
const DefaultStep = 5 * time.Second

// UpgradeOptions say what to replace a plugin's process by.
type UpgradeOptions struct {
	// Path is the new executable, also for later restarts. Empty means the configured one, resolved again: the file may have been
	// replaced.
	Path string
	// Step bounds each of the two waits for which requests are held: until the old process has done what it has, and until the
	// new one has opened the stores. 0 means DefaultStep. It should be well below host.QueueOptions.Hold.
	Step time.Duration
}

// Version is one of the processes of an upgrade.
type Version struct {
	Path string
	PID  int
	// About is its own word on what it was built with.
	About string
}

// Upgrade tells how an upgrade went.
type Upgrade struct {
	// Old is zero if there was no process at the moment.
	Old, New Version
	// Pauses tells of each store, in no order; nothing if the plugin has none, or had no process.
	Pauses []Pause
}

// Pause is what an upgrade cost one store.
type Pause struct {
	Store *Store
	// Time is for how long its requests were held.
	Time time.Duration
	// Waited is how many requests came meanwhile.
	Waited uint64
}

// Worst is the longest pause, and how many requests waited in all.
func (u *Upgrade) Worst() (pause time.Duration, waited uint64) {
	for _, p := range u.Pauses {
		pause, waited = max(pause, p.Time), waited+p.Waited
	}
	return pause, waited
}

// ErrUpgrading says that another upgrade of the plugin is under way.
var ErrUpgrading = errors.New("another upgrade of this plugin is under way")

// ErrQuiesce says that an upgrade was given up because the old process did not end its requests in time.
var ErrQuiesce = errors.New("requests did not end in time, the old process goes on")

// ErrRolledBack says that the new process could not take over, so that the old one goes on, or, if that died meanwhile, its next.
var ErrRolledBack = errors.New("the new process could not take over and was ended")

// handover is a process that an upgrade has started, on its way to the keeper's goroutine, which owns it from then on.
type handover[P process] struct {
	proc   P
	path   string
	pinned bool // path is for later restarts, too
	step   time.Duration
	report Upgrade
	err    error
	done   chan struct{} // closed when report and err are there
}

// end tells the upgrade how it ended. It does nothing without one.
func (h *handover[P]) end(err error) {
	if h == nil {
		return
	}
	h.err = err
	close(h.done)
}

// upgrade starts another process and hands it to the keeper's goroutine.
func (k *keeper[P]) upgrade(ctx context.Context, o UpgradeOptions) (Upgrade, error) {
	if !k.upgrading.TryLock() {
		return Upgrade{}, fmt.Errorf("pluginhost: %s: %w", k.is.name, ErrUpgrading)
	}
	defer k.upgrading.Unlock()
	h := &handover[P]{path: o.Path, pinned: o.Path != "", step: o.Step, done: make(chan struct{})}
	if h.step <= 0 {
		h.step = DefaultStep
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	err := k.prepare(ctx, h)
	if err == nil {
		err = k.deliver(ctx, h)
	}
	if k.ctx.Err() != nil {
		err = errors.Join(err, ErrClosed)
	}
	if err != nil {
		return h.report, fmt.Errorf("pluginhost: %s: upgrade: %w", k.is.name, err)
	}
	return h.report, nil
}

// prepare starts the new process, next to the one that serves, and sees whether it is fit.
func (k *keeper[P]) prepare(ctx context.Context, h *handover[P]) error {
	ctx, cancel := context.WithTimeout(ctx, k.is.ready)
	defer cancel()
	var err error
	if !h.pinned {
		if h.path, err = k.is.path(); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	if h.proc, err = k.kind.start(ctx, h.path); err != nil {
		return fmt.Errorf("nothing was changed: %s cannot be started: %w", h.path, err)
	}
	if err = k.kind.check(ctx, h.proc); err != nil {
		k.discard(h.proc)
		return fmt.Errorf("nothing was changed: %s is not well: %w", h.path, err)
	}
	return nil
}

// deliver waits until the keeper's goroutine has done with the new process.
func (k *keeper[P]) deliver(ctx context.Context, h *handover[P]) error {
	var err error
	select {
	case k.handovers <- h:
		<-h.done
		return h.err
	case <-h.proc.Dead():
		err = fmt.Errorf("nothing was changed: %s died at once: %s", h.path, h.proc.Ending())
	case <-ctx.Done():
		err = fmt.Errorf("nothing was changed: %w", ctx.Err())
	}
	k.discard(h.proc)
	return err
}

// discard ends a process that serves nobody.
func (k *keeper[P]) discard(proc P) {
	proc.Kill()
	<-proc.Dead()
	proc.Close(context.Background()) // it is dead: this frees what it left
}

// settle notes the executable of a handover that has succeeded, and who took part.
func (k *keeper[P]) settle(h *handover[P]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.path = ""
	if h.pinned {
		k.path = h.path
	}
	h.report.New = Version{Path: h.path, PID: h.proc.PID(), About: h.proc.About()}
}

// succeed makes the process of a handover the current one. The old one is ended in order by end, in the background.
func (k *keeper[P]) succeed(old P, h *handover[P], end func(old P)) {
	k.mu.Lock()
	h.report.Old = Version{Path: k.status.Path, PID: old.PID(), About: old.About()}
	k.mu.Unlock()
	k.use(h.proc, h.path)
	k.settle(h)
	k.retiring.Go(func() { end(old) })
	k.enter(StateRunning, nil)
	k.is.log.Info("the plugin was upgraded", "plugin", k.is.name, "from", h.report.Old.Path, "pid", h.report.Old.PID,
		"to", h.path, "new_pid", h.proc.PID())
}
