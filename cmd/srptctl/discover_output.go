package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/doctor"
	"github.com/gosrpt/gosrpt/core/discover"
	"github.com/gosrpt/gosrpt/core/mad"
)

// discovered is what is printed of an agent. What the agent chose is fit for a terminal: package mad sees to it.
type discovered struct {
	Agent       string            `json:"agent"`
	From        string            `json:"from"`
	ChangeID    uint16            `json:"change_id"`
	Slots       int               `json:"slots"`
	Controllers []foundController `json:"controllers"`
	Queries     int               `json:"queries"`
	Sent        int               `json:"sent"`
	Strange     int               `json:"strange"`
	Busy        int               `json:"busy"`
	Error       string            `json:"error,omitempty"`
}

type foundController struct {
	Slot         int            `json:"slot"`
	IOCGUID      string         `json:"ioc_guid"`
	ID           string         `json:"id"`
	Vendor       string         `json:"vendor"`
	Device       string         `json:"device"`
	IOClass      string         `json:"io_class"`
	SendSize     uint32         `json:"send_size"`
	SendDepth    uint16         `json:"send_depth"`
	TransferSize uint32         `json:"transfer_size"`
	Services     []foundService `json:"services"`
	Error        string         `json:"error,omitempty"`
}

type foundService struct {
	Name      string `json:"name"`
	ServiceID string `json:"service_id"`
	AddTarget string `json:"add_target,omitempty"`
	// Problem is why there is no AddTarget.
	Problem string `json:"problem,omitempty"`
}

func describe(r *route, u mad.Unit, stats discover.Stats, err error) discovered {
	d := discovered{Agent: r.name, From: r.from, ChangeID: u.ChangeID, Slots: u.Slots, Controllers: []foundController{},
		Queries: stats.Queries, Sent: stats.Sent, Strange: stats.Strange, Busy: stats.Busy, Error: explain(r, err)}
	for _, f := range u.Found {
		d.Controllers = append(d.Controllers, describeController(r, &f))
	}
	return d
}

func describeController(r *route, f *mad.Found) foundController {
	c := &f.Controller
	out := foundController{Slot: f.Slot, IOCGUID: c.GUID.String(), ID: c.ID, Vendor: fmt.Sprintf("%06x", c.Vendor),
		Device: fmt.Sprintf("%08x", c.Device), IOClass: fmt.Sprintf("%04x", c.Protocol.Class), SendSize: c.SendSize,
		SendDepth: c.SendDepth, TransferSize: c.TransferSize, Services: []foundService{}, Error: explain(r, f.Err)}
	for _, s := range c.Services {
		line, err := r.line(*c, s)
		out.Services = append(out.Services, foundService{Name: s.Name, ServiceID: fmt.Sprintf("%016x", s.ID), AddTarget: line, Problem: explain(r, err)})
	}
	return out
}

// explain is the text of an error, with what may be the cause of silence.
func explain(r *route, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, discover.ErrSilent):
		return fmt.Sprintf("%v; is a target there, does it answer discovery (srptctl fabric)%s?", err, r.silence)
	}
	return err.Error()
}

// lines are those that log in.
func (d *discovered) lines() []string {
	var list []string
	for _, c := range d.Controllers {
		for _, s := range c.Services {
			if s.AddTarget != "" {
				list = append(list, s.AddTarget)
			}
		}
	}
	return list
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// narrator tells the operator, beside the output, what goes on. Its methods may be called from any goroutine.
type narrator struct {
	w       io.Writer
	verbose bool
	mu      sync.Mutex
	// now is where each route is, in their order; nil before its first query.
	now []atomic.Pointer[discover.Step]
}

func (n *narrator) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.w, format+"\n", args...)
}

// about is what Ask tells of the route of a number.
func (n *narrator) about(i int, name string) func(discover.Step) {
	return func(s discover.Step) {
		n.now[i].Store(&s)
		if n.verbose && s.Event != discover.GivenUp { // that is the agent's error, and told in the end
			n.say("%s: %v", name, s)
		}
	}
}

// onTheWay tells what is asked before there are routes.
func (n *narrator) onTheWay(s discover.Step) {
	if n.verbose && s.Event != discover.GivenUp { // that is the command's error
		n.say("%v", s)
	}
}

// When somebody who waits is told for what, the first time and then each time.
const (
	firstWord = 2 * time.Second
	nextWord  = 5 * time.Second
)

// watch tells who is waited for, until stop is called.
func (n *narrator) watch(routes []route) (stop func()) {
	n.now = make([]atomic.Pointer[discover.Step], len(routes))
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		timer := time.NewTimer(firstWord)
		defer timer.Stop()
		for {
			select {
			case <-end:
				return
			case <-timer.C:
				n.waiting(routes)
				timer.Reset(nextWord)
			}
		}
	})
	return func() { close(end); done.Wait() }
}

func (n *narrator) waiting(routes []route) {
	var open []string
	for i := range routes {
		if s := n.now[i].Load(); s != nil && s.Event < discover.Answered {
			open = append(open, fmt.Sprintf("%s (%v, try %d)", routes[i].name, s.Query, s.Try))
		}
	}
	if len(open) > 0 {
		n.say("waiting for %s", strings.Join(open, ", "))
	}
}

// found tells what is worth knowing of an agent besides its lines.
func (n *narrator) found(d *discovered) {
	if n.verbose {
		n.say("%s: asked from %s: %s in %s, change id %d; queries %d, datagrams sent %d, strange ones ignored %d",
			d.Agent, d.From, doctor.Plural(len(d.Controllers), "controller"), doctor.Plural(d.Slots, "slot"), d.ChangeID, d.Queries, d.Sent, d.Strange)
	}
	if d.Error != "" {
		n.say("%s: %s", d.Agent, d.Error)
	}
	for _, c := range d.Controllers {
		if n.verbose && c.Error == "" {
			n.say("%s: slot %d: ioc_guid %s, id %q, vendor %s, device %s, takes %s of %d bytes, %s",
				d.Agent, c.Slot, c.IOCGUID, c.ID, c.Vendor, c.Device, doctor.Plural(int(c.SendDepth), "unit"), c.SendSize, doctor.Plural(len(c.Services), "service"))
		}
		if c.Error != "" {
			n.say("%s: slot %d: %s", d.Agent, c.Slot, c.Error)
		}
		for _, s := range c.Services {
			if s.Problem != "" {
				n.say("%s: slot %d: service %q: %s", d.Agent, c.Slot, s.Name, s.Problem)
			}
		}
	}
	if d.Error == "" && len(d.Controllers) == 0 {
		n.say("%s: it answers, and has no controller in its %d slots", d.Agent, d.Slots)
	}
}
