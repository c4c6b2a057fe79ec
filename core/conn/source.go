package conn

import (
	"errors"
	"slices"
	"time"
)

// Source is something that a reactor's commands wait for: a store, or an arena. All calls come from
// the reactor's goroutine and none may block. A Source must be comparable.
type Source interface {
	// Poll takes what has finished and hands it on. It returns whether there was anything, and does a
	// bounded amount of work a call; Arm tells whether there is more.
	Poll(now time.Time) bool
	// Flush sends off what was submitted since the last Flush.
	Flush()
	// Arm asks for a wake-up, by FD or by the reactor's Wake. It returns false if Poll has something to do now.
	Arm() bool
	// FD becomes readable when Poll should be called; it need not be read. -1 if only Wake is used. It may change, in a
	// function run by Reactor.Call; what replaces a descriptor comes in a later call than its end.
	FD() int
	// Deadline is when Poll must be called at the latest; the zero time means never.
	Deadline() time.Time
}

// earliest returns the earlier of two deadlines, of which the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// watched is a source and the descriptor of it that the reactor waits on.
type watched struct {
	src Source
	fd  int
}

// AddSource adds s.
func (r *Reactor) AddSource(s Source) error {
	fd := s.FD()
	if err := r.watch(fd, byEdge); err != nil {
		return err
	}
	r.sources = append(slices.Clone(r.sources), watched{s, fd})
	return nil
}

// RemoveSource removes s, which is not called any more. It does nothing if s was not added.
func (r *Reactor) RemoveSource(s Source) {
	i := slices.IndexFunc(r.sources, func(w watched) bool { return w.src == s })
	if i < 0 {
		return
	}
	fd := r.sources[i].fd
	r.sources = slices.Delete(slices.Clone(r.sources), i, i+1)
	r.unwatch(fd)
}

// unwatch stops waiting on a descriptor, which may have been closed and given to another source
// since: that one's is watched again.
func (r *Reactor) unwatch(fd int) {
	if fd < 0 {
		return
	}
	r.park.unwatch(fd)
	for _, w := range r.sources {
		if w.fd == fd {
			r.sourceErr = errors.Join(r.sourceErr, r.watch(fd, byEdge))
		}
	}
}

// rewatch follows the sources whose descriptor has changed. It comes after every call: the next one may bring a descriptor that the
// kernel has given the number of the last.
func (r *Reactor) rewatch() {
	for i := range r.sources {
		w := &r.sources[i]
		fd := w.src.FD()
		if fd == w.fd {
			continue
		}
		old := w.fd
		w.fd = -1
		r.unwatch(old)
		if err := r.watch(fd, byEdge); err != nil {
			r.sourceErr = errors.Join(r.sourceErr, err)
			continue
		}
		w.fd = fd
	}
}
