package rdmatest

import (
	"sync"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Loop is the owner goroutine of a completion queue: it polls, hands completions to the End they
// belong to, runs what Do brings, and sleeps on the queue's descriptor or wake-up call in between.
type Loop struct {
	tb    testing.TB
	dev   rdma.Device
	cq    rdma.CQ
	sleep sleeper
	ended chan struct{}

	mu       sync.Mutex
	commands []func()
	stop     bool

	// ends, by QPConfig.User, and lastUser are the owner's. No User is given twice.
	ends     map[uint64]*End
	lastUser uint64
	// strays are the receives of shared queues that came back from queue pairs that are closed, unless stray, if not nil, takes them. They
	// are the owner's.
	shares bool
	srqs   []rdma.SRQ
	strays []rdma.Completion
	stray  func(c *rdma.Completion)
}

// sleeper is where the owner waits.
type sleeper interface {
	// kick ends the present sleep, or else the next one. It may be called from any goroutine.
	kick()
	// sleep waits for a kick, for the completion queue, or for the deadline.
	sleep(deadline time.Time)
	close()
}

// NewLoop makes a completion queue on dev and starts its owner. When the test ends, what is left
// of the Ends, the queue and the goroutine is closed.
func NewLoop(tb testing.TB, dev rdma.Device, cfg rdma.CQConfig) *Loop {
	tb.Helper()
	l := &Loop{tb: tb, dev: dev, ended: make(chan struct{}), ends: make(map[uint64]*End)}
	wake := newChanSleeper()
	cfg.Wake = wake.kick
	cq, err := dev.NewCQ(cfg)
	if err != nil {
		tb.Fatalf("NewCQ: %v", err)
	}
	l.cq, l.sleep = cq, wake
	if fd := cq.FD(); fd >= 0 {
		if l.sleep, err = newPollSleeper(fd); err != nil {
			tb.Fatalf("loop: %v", err)
		}
	}
	tb.Cleanup(l.Close)
	go l.run()
	return l
}

func (l *Loop) run() {
	defer close(l.ended)
	var batch [64]rdma.Completion
	for {
		n := l.cq.Poll(batch[:])
		for i := range batch[:n] {
			l.dispatch(&batch[i])
		}
		if !l.obey() {
			return
		}
		if n == len(batch) || !l.cq.Arm() {
			continue
		}
		l.sleep.sleep(l.cq.Deadline())
	}
}

func (l *Loop) dispatch(c *rdma.Completion) {
	e := l.ends[c.User]
	if e == nil && l.shares && c.User <= l.lastUser && c.Op == rdma.OpRecv && c.Status == rdma.StatusFlushed {
		if l.stray != nil {
			l.stray(c)
		} else {
			l.strays = append(l.strays, *c)
		}
		return
	}
	if e == nil {
		l.tb.Errorf("completion %+v for a user that no queue pair has", *c)
		return
	}
	if e.Handle == nil || !e.Handle(c) {
		e.keep(*c)
	}
}

// obey runs the commands there are, and tells whether the loop goes on.
func (l *Loop) obey() bool {
	for {
		fn, stop := l.nextCommand()
		if fn == nil {
			return !stop
		}
		fn()
	}
}

// nextCommand takes the oldest command, nil if there is none.
func (l *Loop) nextCommand() (fn func(), stop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.commands) > 0 {
		fn = l.commands[0]
		l.commands = l.commands[1:]
	}
	return fn, l.stop
}

// NewSRQ makes a shared receive queue, which is closed with the loop.
func (l *Loop) NewSRQ(cfg rdma.SRQConfig) (s rdma.SRQ, err error) {
	l.Do(func() {
		l.shares = true
		if s, err = rdma.NewSRQ(l.cq, cfg); err == nil {
			l.srqs = append(l.srqs, s)
		}
	})
	return s, err
}

// Do runs fn in the owner goroutine and waits for its end. After Stop it runs it in the caller's.
func (l *Loop) Do(fn func()) {
	done := make(chan struct{})
	l.mu.Lock()
	if l.stop {
		l.mu.Unlock()
		<-l.ended
		fn()
		return
	}
	l.commands = append(l.commands, func() { fn(); close(done) })
	l.mu.Unlock()
	l.sleep.kick()
	<-done
}

// Stop ends the owner goroutine; the caller is the owner from then on.
func (l *Loop) Stop() {
	l.mu.Lock()
	l.stop = true
	l.mu.Unlock()
	l.sleep.kick()
	<-l.ended
}

// Close stops the loop and closes its Ends and its queue. It may be called twice.
func (l *Loop) Close() {
	l.Stop()
	for _, e := range l.ends {
		if err := e.QP.Close(); err != nil {
			l.tb.Errorf("close queue pair: %v", err)
		}
	}
	for _, s := range l.srqs {
		if err := s.Close(); err != nil {
			l.tb.Errorf("close shared receive queue: %v", err)
		}
	}
	if err := l.cq.Close(); err != nil {
		l.tb.Errorf("close completion queue: %v", err)
	}
	l.sleep.close()
	l.sleep = closedSleeper{}
	l.ends = nil
}

// CQ is the queue. It is the owner's: use it inside Do or Handle, or after Stop.
func (l *Loop) CQ() rdma.CQ { return l.cq }

// Device is the queue's device.
func (l *Loop) Device() rdma.Device { return l.dev }

// chanSleeper sleeps on a channel, which works in a synctest bubble.
type chanSleeper chan struct{}

func newChanSleeper() chanSleeper { return make(chanSleeper, 1) }

func (s chanSleeper) kick() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s chanSleeper) sleep(deadline time.Time) {
	if deadline.IsZero() {
		<-s
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-s:
	case <-timer.C:
	}
}

func (s chanSleeper) close() {}

// closedSleeper is the sleeper of a closed loop.
type closedSleeper struct{}

func (closedSleeper) kick()           {}
func (closedSleeper) sleep(time.Time) {}
func (closedSleeper) close()          {}
