package initiator

import (
	"context"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/srp"
)

// logoutPatience is how long a target may take to disconnect after SRP_I_LOGOUT.
const logoutPatience = 2 * time.Second

// Dial logs in: the first channel ends what the nexus had before, the others join it. It returns
// when all channels are up or have been refused. The error wraps ErrRejected, with a RejectError,
// ErrUnreachable, ErrProtocol, ErrInvalid, or the context's error.
func Dial(ctx context.Context, cfg Config) (*Session, error) {
	cfg = cfg.withDefaults()
	failed := func(err error) (*Session, error) {
		return nil, &Error{Op: "login", Target: cfg.service().String(), Err: err}
	}
	if err := cfg.validate(); err != nil {
		return failed(err)
	}
	s, err := newSession(cfg)
	if err != nil {
		return failed(err)
	}
	for i := range cfg.Channels {
		err := s.join(ctx, i)
		if err == nil {
			continue
		}
		if i == 0 || ctx.Err() != nil {
			s.Close()
			return failed(err)
		}
		s.log.Warn("the target refused a further channel", "channels", i, "wanted", cfg.Channels, "error", err)
		break
	}
	if err := s.Err(); err != nil {
		return failed(err)
	}
	return s, nil
}

// join logs a channel in.
func (s *Session) join(ctx context.Context, index int) error {
	started := make(chan error, 1)
	var ch *channel
	s.do(func() {
		var err error
		if ch, err = s.openChannel(index); err == nil {
			s.channels = append(s.channels, ch)
		}
		started <- err
	}, func(err error) { started <- err })
	if err := <-started; err != nil {
		return err
	}
	// The provider keeps the time; this is for one that does not.
	timer := time.NewTimer(s.cfg.Timeout + time.Second)
	defer timer.Stop()
	var err error
	select {
	case err = <-ch.login:
	case <-s.ended:
		err = s.err
	case <-timer.C:
		err = ErrUnreachable
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.drop(ch)
	}
	return err
}

// drop takes a channel that did not come up out of the session.
func (s *Session) drop(ch *channel) {
	done := make(chan struct{})
	s.do(func() {
		ch.close()
		for i, o := range s.channels {
			if o == ch {
				s.channels = append(s.channels[:i], s.channels[i+1:]...)
			}
		}
		close(done)
	}, func(error) { close(done) })
	<-done
}

// Logout tells the target with SRP_I_LOGOUT on each channel that the session ends, waits until it
// has disconnected, or until ctx ends or the target takes too long, and closes the session.
// Commands that are not done end with ErrClosed. It must not be called from Command.Done.
func (s *Session) Logout(ctx context.Context) error {
	s.do(s.leave, func(error) {})
	timer := time.NewTimer(logoutPatience)
	defer timer.Stop()
	var err error
	select {
	case <-s.ended:
	case <-timer.C:
		err = s.fail("logout", fmt.Errorf("%w: it did not disconnect within %v", ErrProtocol, logoutPatience))
	case <-ctx.Done():
		err = s.fail("logout", ctx.Err())
	}
	s.Close()
	return err
}

// leave sends SRP_I_LOGOUT on every channel.
func (s *Session) leave() {
	s.leaving = true
	for _, ch := range s.channels {
		if sl := ch.logoutSlot; sl.free() {
			sl.iu = srp.AppendILogout(sl.iu[:0], sl.newTag())
			ch.send(sl)
		}
	}
}
