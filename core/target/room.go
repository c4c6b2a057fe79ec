package target

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// The causes of refusals for want of room, for logs and counts.
var (
	errChannels = errors.New("no room for one more channel")
	errReserved = errors.New("the channels that are left are kept for hosts that have none")
)

// hcaPort names a port of a device.
type hcaPort struct {
	device string
	num    int
}

func (p hcaPort) String() string { return fmt.Sprintf("port %d of %s", p.num, p.device) }

func portOfConn(i *rdma.ConnInfo) hcaPort { return hcaPort{i.Device, i.Port} }

// occupancy counts the channels of the target and of each port, those that are ending and those that have been promised included. It
// belongs to the reactor's goroutine.
type occupancy struct {
	all  int
	port map[hcaPort]int
}

func (o *occupancy) add(p hcaPort) {
	if o.port == nil {
		o.port = make(map[hcaPort]int)
	}
	o.all++
	o.port[p]++
}

// remove undoes add. A port without channels is forgotten.
func (o *occupancy) remove(p hcaPort) {
	o.all--
	if o.port[p]--; o.port[p] == 0 {
		delete(o.port, p)
	}
}

// room tells whether there may be one more channel on a port: the first of its nexus, or a further one. leaving are the channels
// that the login replaces. They do not count, so that a host that comes back finds its own place free; but however often it comes,
// there are never more than twice as many as the limits say.
func (t *Target) room(p hcaPort, first bool, leaving []*link) refusal {
	if t.closing {
		return refusal{srp.RejResources, errStopped}
	}
	here := 0
	for _, l := range leaving {
		if l.port == p {
			here++
		}
	}
	l := &t.cfg.Limits
	if why := t.within("the target", t.used.all, len(leaving), l.Channels, first); why.refused() {
		return why
	}
	return t.within(p.String(), t.used.port[p], here, l.ChannelsPerPort, first)
}

// within holds what is in use of something against its limit.
func (t *Target) within(what string, all, leaving, limit int, first bool) refusal {
	used, kept := all-leaving, t.cfg.Limits.kept(limit)
	switch {
	case used >= limit || all >= most(limit):
		return refusal{srp.RejResources, fmt.Errorf("%w: %s has %d of %d; %s", errChannels, what, all, limit, t.holders())}
	case !first && used >= limit-kept:
		return refusal{srp.RejChannelLimit, fmt.Errorf("%w: %s has %d of %d, %d are reserved; %s", errReserved, what, used, limit, kept, t.holders())}
	}
	return refusal{}
}

const (
	// namedHolders is how many sessions a refusal names.
	namedHolders = 3
	// holdersAge is how old what it says of them may be, so that a flood of logins does not have every session looked at each time.
	holdersAge = time.Second
)

// holders names the sessions that have the most channels.
func (t *Target) holders() string {
	now := t.reactor.Now()
	if t.held != "" && now.Sub(t.heldAt) < holdersAge {
		return t.held
	}
	list := make([]*session, 0, len(t.sessions))
	for _, s := range t.sessions {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(len(b.links), len(a.links)), cmp.Compare(a.id, b.id))
	})
	names := []string{fmt.Sprintf("%d sessions", len(list))}
	for _, s := range list[:min(len(list), namedHolders)] {
		names = append(names, fmt.Sprintf("initiator %v has %d", s.key.initiator, len(s.links)))
	}
	t.held, t.heldAt = strings.Join(names, ", "), now
	return t.held
}

// ChannelUse is how much of a limit of channels is in use.
type ChannelUse struct {
	// Device and Port name the port; they are empty and 0 for the whole target.
	Device string
	Port   int
	// InUse counts channels, those that are ending and those promised to a login included; Limit is the most there may be,
	// Reserved how many of them only the first channel of a nexus may use.
	InUse, Limit, Reserved int
}

func (t *Target) channelUse() []ChannelUse {
	l := &t.cfg.Limits
	list := []ChannelUse{{InUse: t.used.all, Limit: l.Channels, Reserved: l.kept(l.Channels)}}
	for p, n := range t.used.port {
		list = append(list, ChannelUse{Device: p.device, Port: p.num, InUse: n, Limit: l.ChannelsPerPort, Reserved: l.kept(l.ChannelsPerPort)})
	}
	slices.SortFunc(list, func(a, b ChannelUse) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	return list
}
