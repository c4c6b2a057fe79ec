// Package doctor looks at a host before, or while, srptd runs on it: what would keep initiators out or slow, to whom that
// happens, and what mends it. It changes nothing. All that it looks at comes through a Host, so that every row can be
// tested on hosts that there are not.
package doctor

import (
	"context"
	"fmt"

	"github.com/gosrpt/gosrpt/core/config"
)

// Level is how bad a finding is.
type Level uint8

// The levels.
const (
	OK Level = iota
	// NotChecked: it could not be looked at, mostly for want of privilege.
	NotChecked
	// Warning: it works, worse than it could, or something is not served.
	Warning
	// Problem: initiators cannot log in, or srptd does not start.
	Problem
)

// String is the level for the operator.
func (l Level) String() string {
	return [...]string{"ok", "not checked", "warning", "problem"}[l]
}

// MarshalText makes the level a word in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one thing that was looked at.
type Finding struct {
	Level Level `json:"level"`
	// Check is the name of the group.
	Check string `json:"check"`
	// Subject is whom it is about: an interface, an address, a process, a file.
	Subject string `json:"subject"`
	What    string `json:"what"`
	// Mend is what to do, a command where there is one.
	Mend string `json:"mend,omitempty"`
}

// exam is one examination of a host.
type exam struct {
	ctx  context.Context
	host *Host
	// cfg is nil if there is no valid configuration.
	cfg     *config.Config
	links   []Link
	daemons []process
	// self is the process of the daemon that answers at the control socket; 0 if there is none, or it is not known.
	self  int
	found []Finding
}

// Run examines a host.
func Run(ctx context.Context, h *Host) []Finding {
	e := &exam{ctx: ctx, host: h}
	e.daemons = h.daemons()
	for _, check := range []func(*exam){
		(*exam).build, (*exam).kernel, (*exam).configuration, (*exam).control, (*exam).plugins, (*exam).interfaces, (*exam).addresses,
		(*exam).mtu, (*exam).port4791, (*exam).firewall, (*exam).buffers, (*exam).memlock, (*exam).kernelTarget, (*exam).rdma,
	} {
		check(e)
	}
	return e.found
}

func (e *exam) add(l Level, check, subject, mend, format string, args ...any) {
	e.found = append(e.found, Finding{Level: l, Check: printable(check), Subject: printable(subject),
		What: printable(fmt.Sprintf(format, args...)), Mend: printable(mend)})
}

// root tells whether the examination may look at everything.
func (e *exam) root() bool { return e.host.UID == 0 }
