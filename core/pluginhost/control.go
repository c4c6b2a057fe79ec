package pluginhost

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// DefaultCall bounds one question to a plugin of the control plane.
const DefaultCall = 5 * time.Second

// grace is how long a process whose connection broke may take to be seen dead.
const grace = time.Second

// ControlConfig is the configuration of one plugin of the control plane.
type ControlConfig struct {
	// Name names it to the operator.
	Name string
	// Path is the executable, see Find. It is resolved again at each start if Resolve is set.
	Path    string
	Resolve func() (string, error)
	// Args and Env are the process's arguments and its whole environment.
	Args, Env []string
	// Config is what each process opens.
	Config map[string]string
	// Call bounds one question.
	Call time.Duration
	// Ready bounds a start.
	Ready time.Duration
	// Stop bounds an orderly end, after which the process is killed.
	Stop time.Duration
	// Hang is how long a plugin may take for a sign of life before it is killed. It is asked three times in that time.
	Hang time.Duration
	// BackoffMin and BackoffMax bound the pause before a restart. The first restart after a steady time has none.
	BackoffMin, BackoffMax time.Duration
	// OnChange, if set, is called after each change of State, from one goroutine. It must not block.
	OnChange func(Status)
	Log      hclog.Logger
}

func (c *ControlConfig) setDefaults() error {
	if err := setWaits(c.Name, wait{&c.Call, DefaultCall}, wait{&c.Ready, DefaultReady}, wait{&c.Stop, DefaultStop}, wait{&c.Hang, DefaultHang},
		wait{&c.BackoffMin, DefaultBackoffMin}, wait{&c.BackoffMax, DefaultBackoffMax}); err != nil {
		return err
	}
	if c.Name == "" || c.Log == nil || (c.Path == "" && c.Resolve == nil) {
		return fmt.Errorf("pluginhost: a plugin needs a name, a path and a logger: %w", ErrConfig)
	}
	c.BackoffMax = max(c.BackoffMax, c.BackoffMin)
	return nil
}

func (c *ControlConfig) path() (string, error) {
	if c.Resolve != nil {
		return c.Resolve()
	}
	return c.Path, nil
}

// controlled is one life of a plugin of the control plane.
type controlled interface {
	process
	Notice() string
	Ping(ctx context.Context) error
}

// minder is the kind of the plugins of the control plane.
type minder[P controlled] struct {
	keeper[P]
	of   string // the kind of plugin
	cfg  ControlConfig
	host func(context.Context, host.ControlOptions) (P, error)
	// watch delivers changes until the process ends.
	watch func(P) error
	// back is told when another process has taken over, before its changes.
	back func()

	late bool // the process is not the first
	// asking are the questions to the current process; under mu.
	asking *sync.WaitGroup
	// following are the goroutines that follow a process. They end with it, which is later than an upgrade: telling has them take
	// turns.
	following sync.WaitGroup
	telling   sync.Mutex
}

func (m *minder[P]) mind(ctx context.Context, gone string) error {
	return m.begin(ctx, m, keeping{
		name: m.cfg.Name, path: m.cfg.path, ready: m.cfg.Ready, backoffMin: m.cfg.BackoffMin, backoffMax: m.cfg.BackoffMax,
		onChange: m.cfg.OnChange, log: m.cfg.Log, gone: gone,
	})
}

func (m *minder[P]) start(ctx context.Context, path string) (P, error) {
	v, err := vet(m.of, path, []map[string]string{m.cfg.Config}, m.cfg.Log)
	if err != nil {
		var none P
		return none, err
	}
	defer v.close()
	p, err := m.host(ctx, host.ControlOptions{Path: v.path, Launch: v.launch, Args: m.cfg.Args, Env: m.cfg.Env, Config: m.cfg.Config, Log: m.cfg.Log})
	if err == nil && p.Notice() != "" {
		m.cfg.Log.Info("the plugin is open", "plugin", m.cfg.Name, "notice", p.Notice())
	}
	return p, err
}

func (m *minder[P]) arrived(P) { m.late = true }

// check asks for a sign of life.
func (m *minder[P]) check(ctx context.Context, proc P) error { return proc.Ping(ctx) }

// follow returns when a process has ended; where another has taken over, when that has.
func (m *minder[P]) follow(proc P) (P, error) {
	for {
		h, err := m.followOne(proc)
		if h == nil {
			return proc, err
		}
		m.takeOver(proc, h)
		proc = h.proc
	}
}

// takeOver has the new process asked from now on. The old one is ended when it has answered what it was asked.
func (m *minder[P]) takeOver(old P, h *handover[P]) {
	m.mu.Lock()
	asking := m.asking
	m.asking, m.proc = nil, h.proc
	m.mu.Unlock()
	m.late = true
	m.succeed(old, h, func(old P) {
		if asking != nil {
			asking.Wait() // each question has its own bound
		}
		ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Stop)
		defer cancel()
		old.Close(ctx)
	})
	h.end(nil)
}

// followOne returns when a process has ended, or is to be replaced:
//
//	stream of changes ends   it is given a moment to die, then killed
//	no sign of life          it is killed
//	dead                     why, is returned
//	upgrade                  it is returned
//	close                    nothing is returned
func (m *minder[P]) followOne(proc P) (*handover[P], error) {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	broken, hangs := make(chan error, 1), make(chan error, 1)
	late := m.late
	m.following.Go(func() {
		if late {
			m.back()
		}
		broken <- m.watch(proc)
	})
	m.following.Go(func() { hangs <- m.pulse(ctx, proc) })
	select {
	case <-m.ctx.Done():
		return nil, nil
	case h := <-m.handovers:
		return h, nil
	case <-proc.Dead():
	case err := <-broken:
		return nil, m.doubt(proc, err)
	case err := <-hangs:
		return nil, m.doubt(proc, err)
	}
	return nil, fmt.Errorf("the process ended: %s", proc.Ending())
}

// doubt kills a process that does not work any more, unless it is dead anyway.
func (m *minder[P]) doubt(proc P, err error) error {
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-m.ctx.Done():
		return nil
	case <-proc.Dead():
		return fmt.Errorf("the process ended: %s", proc.Ending())
	case <-t.C:
		return m.kill(proc, err)
	}
}

// pulse returns when a process gives no sign of life in time.
func (m *minder[P]) pulse(ctx context.Context, proc P) error {
	t := time.NewTicker(m.cfg.Hang / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		asked, cancel := context.WithTimeout(ctx, m.cfg.Hang)
		err := proc.Ping(asked)
		cancel()
		if err != nil {
			return fmt.Errorf("no sign of life within %v: %w: %w", m.cfg.Hang, ErrHang, err)
		}
	}
}

func (m *minder[P]) bury(proc P) {
	m.forget()
	proc.Close(context.Background()) // it is dead: this frees what it left
	m.following.Wait()
}

func (m *minder[P]) finish(proc P) {
	m.forget()
	var none P
	if proc != none {
		ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Stop)
		defer cancel()
		proc.Close(ctx)
	}
	m.following.Wait()
}

func (m *minder[P]) describe(s *Status) {
	var none P
	if m.proc != none {
		s.Notice = m.proc.Notice()
	}
}

// respondent is the process to put a question to. It is not ended for another one's sake before done is called.
func (m *minder[P]) respondent() (proc P, done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if proc, err = m.currentLocked(); err != nil {
		return proc, nil, err
	}
	if m.asking == nil {
		m.asking = &sync.WaitGroup{}
	}
	m.asking.Add(1)
	return proc, m.asking.Done, nil
}

// ask puts a question to the process that there is, within the time for one.
func ask[P controlled, A any](ctx context.Context, m *minder[P], question func(context.Context, P) (A, error)) (A, error) {
	var none A
	proc, done, err := m.respondent()
	if err != nil {
		return none, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Call)
	defer cancel()
	a, err := question(ctx, proc)
	if err != nil {
		return none, fmt.Errorf("pluginhost: %s: %w", m.cfg.Name, err)
	}
	return a, nil
}
