//go:build verbs

package verbs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// room is what a queue pair is asked to hold, or does: work requests of the send queue and of the receive queue, elements of each, and bytes
// of inline data.
type room struct{ sends, recvs, elements, inline uint32 }

// Where giving up ends. The seam asks for no send queue of a length: what the device does not take at once waits in our ring.
const (
	fewestSends    = 16 // work requests
	fewestElements = 1
	inlineBytes    = 64 // an SRP_RSP without sense data has 36
)

func (r room) String() string {
	return fmt.Sprintf("%d sends and %d receives of %d elements", r.sends, r.recvs, r.elements)
}

// less is what to ask for once r has been refused; want is what was asked for at first. A device may have all that its attributes tell of,
// but not all at once. First the inline data is given up, then half of the send queue, again and again, and then half of the elements, with
// which the whole send queue may be had again. Receives stay: the peer has been promised them. It returns false if nothing is left to give up.
func (r room) less(want room) (room, bool) {
	switch {
	case r.inline > 0:
		r.inline = 0
	case r.sends/2 >= fewestSends:
		r.sends /= 2
	case r.elements > fewestElements:
		r.elements = max(r.elements/2, fewestElements)
		r.sends = want.sends
	default:
		return r, false
	}
	return r, true
}

// use is what is used of what was granted for r: never more elements than were asked for. It is an error if a part is missing that
// nobody can do without.
func (r room) use(granted room) (room, error) {
	if granted.sends == 0 || granted.recvs < r.recvs || granted.elements < fewestElements {
		return room{}, fmt.Errorf("granted only %v: %w", granted, unix.EINVAL)
	}
	granted.elements = min(granted.elements, r.elements)
	return granted, nil
}

// fit has create make a queue pair with as much of want as it grants. limits, for the error, is what the device's attributes tell of.
// create returns what it has granted, by a call that leaves nothing behind when it fails; destroy undoes it.
func fit(want, limits room, create func(room) (room, error), destroy func()) (room, error) {
	for ask := want; ; {
		granted, err := create(ask)
		if err == nil {
			if granted, err = ask.use(granted); err == nil {
				return granted, nil
			}
			destroy()
		}
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOMEM) {
			return room{}, err
		}
		less, ok := ask.less(want)
		if !ok {
			return room{}, &noRoomError{want, ask, limits, err}
		}
		ask = less
	}
}

// noRoomError tells that a device grants no queue pair that would do. It wraps ErrFull and the device's error.
type noRoomError struct {
	want, last, limits room
	err                error
}

func (e *noRoomError) Error() string {
	s := fmt.Sprintf("the device grants neither %v nor %v, its limits being %v: %v (what is left to lower is the receives, the credits of a login)",
		e.want, e.last, e.limits, e.err)
	if errors.Is(e.err, unix.ENOMEM) {
		s += " (is the limit of locked memory, ulimit -l, too low?)"
	}
	return s
}

func (e *noRoomError) Unwrap() []error { return []error{rdma.ErrFull, e.err} }
