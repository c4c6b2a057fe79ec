package pluginhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// process is one life of a plugin of any kind.
type process interface {
	comparable
	Dead() <-chan struct{}
	Ending() string
	PID() int
	About() string
	Kill()
	Close(ctx context.Context)
}

// kind is what the kinds of plugins differ in. Its methods are called in the keeper's goroutine, but for the first
// start, and describe.
type kind[P process] interface {
	// start starts a process.
	start(ctx context.Context, path string) (P, error)
	// check says whether a process that has been started is fit to take over from another.
	check(ctx context.Context, proc P) error
	// arrived is told of each process but the first, when it has been started.
	arrived(proc P)
	// follow returns why a process has ended, when it has, or when the plugin is closed. That is the last of those that have
	// taken over from each other by then.
	follow(proc P) (last P, err error)
	// bury forgets a dead process.
	bury(proc P)
	// finish ends the plugin, whose process may be none.
	finish(proc P)
	// describe adds what the kind knows. The caller holds mu.
	describe(s *Status)
}

// keeping is what a keeper needs to know of a plugin.
type keeping struct {
	name                   string
	path                   func() (string, error)
	ready                  time.Duration
	backoffMin, backoffMax time.Duration
	onChange               func(Status)
	log                    hclog.Logger
	// gone tells the operator what the death of a process means.
	gone string
}

// keeper has one process after another of a plugin:
//
//	running   follow returns   the process is buried; a pause (none at first), then starting
//	running   upgrade          follow hands over to the new process, or keeps the old one; running
//	down      upgrade          the new process is the next
//	starting  success          arrived; running
//	starting  failure          down for a longer pause; then starting
//	any       close            finish; closed
type keeper[P process] struct {
	is     keeping
	kind   kind[P]
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	done   chan struct{} // closed when the keeper has ended

	upgrading sync.Mutex // held by an upgrade
	handovers chan *handover[P]
	// retiring are the ends of processes that another has taken over from.
	retiring sync.WaitGroup

	mu     sync.Mutex
	proc   P // the zero value without one
	status Status
	path   string // of an upgrade, in place of keeping's
}

// begin starts the plugin and keeps it until close. ctx bounds the first start, whose failure is begin's.
func (k *keeper[P]) begin(ctx context.Context, kind kind[P], is keeping) error {
	k.is, k.kind, k.done, k.handovers = is, kind, make(chan struct{}), make(chan *handover[P])
	k.status = Status{Name: is.name, State: StateStarting, Since: time.Now()}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	proc, err := k.launch(ctx)
	if err != nil {
		k.cancel()
		return fmt.Errorf("pluginhost: %s: %w", is.name, err)
	}
	k.enter(StateRunning, nil)
	go k.supervise(proc)
	return nil
}

// launch starts a process and makes it the current one.
func (k *keeper[P]) launch(ctx context.Context) (P, error) {
	var none P
	ctx, cancel := context.WithTimeout(ctx, k.is.ready)
	defer cancel()
	path, err := k.executable()
	if err != nil {
		return none, err
	}
	proc, err := k.kind.start(ctx, path)
	if err != nil {
		return none, err
	}
	k.use(proc, path)
	return proc, nil
}

// executable is what to start: what the last upgrade said, or the configuration.
func (k *keeper[P]) executable() (string, error) {
	k.mu.Lock()
	path := k.path
	k.mu.Unlock()
	if path != "" {
		return path, nil
	}
	return k.is.path()
}

// use makes proc the current process.
func (k *keeper[P]) use(proc P, path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.proc, k.status.Path = proc, path
}

// current is the process, or ErrDown or ErrClosed.
func (k *keeper[P]) current() (P, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.currentLocked()
}

func (k *keeper[P]) currentLocked() (P, error) {
	var none P
	switch {
	case k.status.State == StateClosed:
		return none, fmt.Errorf("pluginhost: %s: %w", k.is.name, ErrClosed)
	case k.proc == none:
		return none, fmt.Errorf("pluginhost: %s: %w; %s", k.is.name, ErrDown, k.status.LastError)
	}
	return k.proc, nil
}

// forget is for bury and finish: there is no process any more.
func (k *keeper[P]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var none P
	k.proc = none
}

// close ends the plugin. It may be called twice.
func (k *keeper[P]) close() {
	k.cancel()
	<-k.done
}

func (k *keeper[P]) supervise(proc P) {
	defer close(k.done)
	pause := time.Duration(0)
	for {
		began := time.Now()
		var err error
		proc, err = k.kind.follow(proc)
		if k.ctx.Err() != nil {
			k.conclude(proc)
			return
		}
		k.is.log.Error(k.is.gone, "plugin", k.is.name, "pid", proc.PID(), "reason", err)
		k.kind.bury(proc)
		k.enter(StateDown, err)
		if time.Since(began) >= steady {
			pause = 0
		}
		var up bool
		if proc, pause, up = k.raise(pause); !up {
			var none P
			k.conclude(none)
			return
		}
	}
}

func (k *keeper[P]) conclude(proc P) {
	k.kind.finish(proc)
	k.retiring.Wait()
	k.enter(StateClosed, nil)
}

// kill kills a process and waits for its death: until then it may touch what it was given.
func (k *keeper[P]) kill(proc P, err error) error {
	k.is.log.Error("killing the plugin", "plugin", k.is.name, "pid", proc.PID(), "reason", err)
	proc.Kill()
	<-proc.Dead()
	return err
}

// raise brings up the next process, after pause, and tries until it succeeds, or the plugin is closed: then up is false.
func (k *keeper[P]) raise(pause time.Duration) (proc P, next time.Duration, up bool) {
	for {
		h, ok := k.sleep(pause)
		if !ok {
			return proc, 0, false
		}
		pause = min(max(2*pause, k.is.backoffMin), k.is.backoffMax)
		k.enter(StateStarting, nil)
		proc, err := k.next(h)
		if err == nil {
			k.mu.Lock()
			k.status.Restarts++
			k.mu.Unlock()
			k.kind.arrived(proc)
			k.enter(StateRunning, nil)
			k.is.log.Info("the plugin is back", "plugin", k.is.name, "pid", proc.PID())
			h.end(nil)
			return proc, pause, true
		}
		if k.ctx.Err() != nil {
			return proc, 0, false
		}
		k.is.log.Error("cannot start the plugin", "plugin", k.is.name, "error", err, "next", pause)
		k.enter(StateDown, err)
	}
}

// next is the process of an upgrade that came when there was none, or else a new one.
func (k *keeper[P]) next(h *handover[P]) (P, error) {
	if h == nil {
		return k.launch(k.ctx)
	}
	k.use(h.proc, h.path)
	k.settle(h)
	return h.proc, nil
}

// sleep waits for pause, or until an upgrade brings a process. It returns false if the plugin is closed.
func (k *keeper[P]) sleep(pause time.Duration) (*handover[P], bool) {
	k.mu.Lock()
	k.status.Next = time.Now().Add(pause)
	k.mu.Unlock()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-k.ctx.Done():
		return nil, false
	case h := <-k.handovers:
		return h, true
	case <-t.C:
		return nil, k.ctx.Err() == nil
	}
}

// enter changes the state and tells the owner. err, if there is one, is remembered.
func (k *keeper[P]) enter(s State, err error) {
	k.mu.Lock()
	k.status.State, k.status.Since = s, time.Now()
	if err != nil {
		k.status.LastError = err.Error()
	}
	now := k.statusLocked()
	k.mu.Unlock()
	if k.is.onChange != nil {
		k.is.onChange(now)
	}
}

func (k *keeper[P]) statusLocked() Status {
	s := k.status
	var none P
	if k.proc != none {
		s.PID, s.About = k.proc.PID(), k.proc.About()
	}
	k.kind.describe(&s)
	return s
}

func (k *keeper[P]) snapshot() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.statusLocked()
}
