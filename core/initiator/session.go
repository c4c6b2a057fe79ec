package initiator

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Session is one or more channels of an I_T nexus. All its methods may be called from any
// goroutine, and those that do not say that they wait, from Command.Done.
type Session struct {
	cfg  Config
	log  hclog.Logger
	cq   rdma.CQ
	wait waiter
	// channels, batch, queue, seq, stopping and leaving are the session goroutine's.
	channels []*channel
	batch    [64]rdma.Completion
	queue    []submission
	// seq numbers the commands and task management functions in the order they are sent.
	seq uint64
	// stopping is why the session ends.
	stopping error
	// leaving tells that a logout is under way: channels may disconnect.
	leaving bool
	// fallAsleep is the callback of wait, made once.
	fallAsleep func() bool

	sleeping atomic.Bool
	stats    counters

	mu     sync.Mutex
	intake []submission
	// refuse is why Submit takes nothing more.
	refuse error

	ended chan struct{}
	err   error // why the session has ended; valid after ended is closed
}

// submission is work for the session's goroutine: a command, or a call.
type submission struct {
	cmd  *Command
	call func()
	// drop is called instead of call if the session ends before.
	drop func(err error)
}

func newSession(cfg Config) (*Session, error) {
	s := &Session{cfg: cfg, log: cfg.Logger, ended: make(chan struct{})}
	s.fallAsleep = s.tryToSleep
	depth := cfg.Channels * (sendSlots(cfg.QueueDepth) + receives(cfg.QueueDepth) + 1)
	wait := newChanWaiter()
	cq, err := cfg.Device.NewCQ(rdma.CQConfig{Depth: depth, Wake: wait.kick, Index: cfg.CQIndex, Count: cfg.CQCount})
	if err != nil {
		return nil, err
	}
	s.cq, s.wait = cq, wait
	if fd := cq.FD(); fd >= 0 {
		if s.wait, err = newEpollWaiter(fd); err != nil {
			cq.Close()
			return nil, err
		}
	}
	go s.loop()
	return s, nil
}

func (s *Session) loop() {
	for s.stopping == nil {
		n := s.cq.Poll(s.batch[:])
		for i := range s.batch[:n] {
			s.complete(&s.batch[i])
		}
		s.takeIn()
		s.pump()
		if s.stopping == nil && n < len(s.batch) {
			s.wait.wait(s.fallAsleep, s.cq.Deadline())
			s.sleeping.Store(false)
		}
	}
	s.tearDown()
}

// tryToSleep declares the sleep, and then looks whether there is a reason not to.
func (s *Session) tryToSleep() bool {
	s.sleeping.Store(true)
	s.mu.Lock()
	idle := len(s.intake) == 0
	s.mu.Unlock()
	return idle && s.cq.Arm()
}

// complete hands a completion to its channel.
func (s *Session) complete(c *rdma.Completion) {
	for _, ch := range s.channels {
		if ch.user() == c.User {
			ch.complete(c)
			return
		}
	}
}

// takeIn gives what was submitted to the channels.
func (s *Session) takeIn() {
	s.mu.Lock()
	s.queue, s.intake = s.intake, s.queue[:0]
	s.mu.Unlock()
	for i := range s.queue {
		if sub := &s.queue[i]; sub.cmd != nil {
			s.assign(sub.cmd)
		} else {
			sub.call()
		}
	}
	clear(s.queue)
}

// assign queues a command at a channel.
func (s *Session) assign(c *Command) {
	if s.stopping != nil {
		c.fail(s.stopping)
		return
	}
	ch := s.leastBusy()
	if c.Channel > 0 && c.Channel <= len(s.channels) {
		ch = s.channels[c.Channel-1]
	}
	c.ch = ch
	ch.waiting.push(c)
}

func (s *Session) leastBusy() *channel {
	best := s.channels[0]
	for _, ch := range s.channels[1:] {
		if ch.load() < best.load() {
			best = ch
		}
	}
	return best
}

// pump sends what credits and slots allow.
func (s *Session) pump() {
	for _, ch := range s.channels {
		if s.stopping != nil {
			return
		}
		ch.pump()
	}
	s.cq.Flush()
}

// stop ends the session after the present round.
func (s *Session) stop(why error) {
	if s.stopping == nil {
		s.stopping = why
	}
}

// tearDown closes everything, and then ends every command: by then no target can reach the memory
// of any of them.
func (s *Session) tearDown() {
	s.mu.Lock()
	s.refuse = s.stopping
	rest := s.intake
	s.intake = nil
	s.mu.Unlock()
	for _, ch := range s.channels {
		ch.close()
	}
	if err := s.cq.Close(); err != nil {
		s.log.Warn("closing the completion queue failed", "error", err)
	}
	s.wait.close()
	for _, ch := range s.channels {
		ch.failAll(s.stopping)
	}
	for _, sub := range rest {
		if sub.cmd != nil {
			sub.cmd.fail(s.stopping)
		} else {
			sub.drop(s.stopping)
		}
	}
	s.err = s.stopping
	close(s.ended)
}

// Submit sends commands in order, as credits allow. It returns how many were taken; the others
// belong to the caller, and err tells why: ErrBusy for a command that is not done, or why the
// session has ended. A command that cannot be encoded is taken, and ends with Result.Err.
func (s *Session) Submit(commands ...*Command) (n int, err error) {
	s.mu.Lock()
	for _, c := range commands {
		if err = s.refuse; err != nil {
			break
		}
		if !c.inUse.CompareAndSwap(false, true) {
			err = s.fail("submit", ErrBusy)
			break
		}
		s.intake = append(s.intake, submission{cmd: c})
		n++
	}
	s.mu.Unlock()
	s.rouse()
	return n, err
}

// rouse wakes the session's goroutine if it sleeps.
func (s *Session) rouse() {
	if s.sleeping.Load() && s.sleeping.CompareAndSwap(true, false) {
		s.wait.kick()
	}
}

// do has the session's goroutine run fn. drop is called instead if the session ends before.
func (s *Session) do(fn func(), drop func(err error)) {
	s.mu.Lock()
	if err := s.refuse; err != nil {
		s.mu.Unlock()
		drop(err)
		return
	}
	s.intake = append(s.intake, submission{call: fn, drop: drop})
	s.mu.Unlock()
	s.rouse()
}

// fail makes the error of an operation of the session.
func (s *Session) fail(op string, err error) error {
	return &Error{Op: op, Target: s.cfg.service().String(), Err: err}
}

// Register registers memory for the data of commands, readable and writable by the target. The
// caller closes the region when no command names it.
func (s *Session) Register(mem []byte) (rdma.Region, error) {
	return s.cfg.Device.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
}

// Done is closed when the session has ended, and all its commands with it.
func (s *Session) Done() <-chan struct{} { return s.ended }

// Err tells why the session has ended; nil while it has not.
func (s *Session) Err() error {
	select {
	case <-s.ended:
		return s.err
	default:
		return nil
	}
}

// Close ends the session at once: the target learns of it by the disconnection alone. It waits
// until all commands have ended, and so it must not be called from Command.Done. It may be called
// twice, and always returns nil.
func (s *Session) Close() error {
	s.do(func() { s.stop(s.fail("close", ErrClosed)) }, func(error) {})
	<-s.ended
	return nil
}

// String names the session for logs.
func (s *Session) String() string {
	return fmt.Sprintf("%v to %v at %v", s.cfg.Initiator, s.cfg.Target, s.cfg.service())
}
