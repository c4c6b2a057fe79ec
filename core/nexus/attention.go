package nexus

import "github.com/gosrpt/gosrpt/core/scsi"

// maxAttentions bounds a queue: an initiator gives up on a command that meets a
// new unit attention at each of its retries.
const maxAttentions = 3

// ascReset is the additional sense code of power on and of every kind of reset.
const ascReset = 0x29

// Attentions is the queue of unit attention conditions that one logical unit has
// for one I_T nexus (SAM-5 5.14). The zero value is empty.
type Attentions struct {
	codes [maxAttentions]scsi.SenseCode
	n     int
}

// NewAttentions returns the queue of a nexus that has not used the unit yet:
// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED.
func NewAttentions() Attentions {
	var a Attentions
	a.Raise(scsi.PowerOn)
	return a
}

// Raise adds a condition. One that is there is not added again. Of the conditions
// 29h/xxh only the one of highest precedence, that is with the lowest qualifier,
// is kept, and it is reported first. If the queue is full, the oldest other
// condition makes room.
func (a *Attentions) Raise(c scsi.SenseCode) {
	for i := range a.n {
		if a.codes[i] == c {
			return
		}
	}
	if c.ASC() == ascReset {
		a.reset(c)
		return
	}
	if a.n == maxAttentions {
		a.remove(a.firstOther())
	}
	a.codes[a.n] = c
	a.n++
}

// reset puts c in front, unless something of higher precedence is there.
func (a *Attentions) reset(c scsi.SenseCode) {
	if a.n > 0 && a.codes[0].ASC() == ascReset {
		a.codes[0] = min(a.codes[0], c)
		return
	}
	if a.n == maxAttentions {
		a.remove(0)
	}
	copy(a.codes[1:], a.codes[:a.n])
	a.codes[0] = c
	a.n++
}

func (a *Attentions) firstOther() int {
	if a.codes[0].ASC() == ascReset {
		return 1
	}
	return 0
}

func (a *Attentions) remove(i int) {
	copy(a.codes[i:], a.codes[i+1:a.n])
	a.n--
}

// Pending tells whether a condition waits to be reported.
func (a *Attentions) Pending() bool { return a.n > 0 }

// Take removes and returns the condition to report next, with CHECK CONDITION, or
// as the data of REQUEST SENSE. INQUIRY and REPORT LUNS neither report nor take.
func (a *Attentions) Take() (scsi.SenseCode, bool) {
	if a.n == 0 {
		return 0, false
	}
	c := a.codes[0]
	a.remove(0)
	return c, true
}
