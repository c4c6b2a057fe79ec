package target

import (
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Config is the configuration of a Target.
type Config struct {
	// Name names the target in logs.
	Name string
	// Devices are the RDMA devices to serve from the beginning; others may be added. They stay the caller's, to be closed after Shutdown
	// or RemoveDevice.
	Devices []rdma.Device
	// Services are what is listened on: each on every device that has the address; one without an
	// address on every device. One whose address no device has waits for it. One that has an ID, and no GID, is listened to at every
	// InfiniBand port.
	Services []rdma.Service
	// PortIDs are the target port identifiers that initiators may log in to. Their order gives the
	// relative target port identifiers, from 1.
	PortIDs []srp.PortID
	// Identity is the vendor, product and revision that LUNs without a logical unit report.
	Identity scsi.Identity
	// Plan says how many I/O contexts a channel has; the zero Plan means ioctx.DefaultPlan.
	Plan ioctx.Plan
	// Immediate permits immediate data.
	Immediate bool
	// Limits bounds what initiators may use.
	Limits Limits
	// Timing bounds the waits of channels; zero values mean those of conn.DefaultTiming.
	Timing conn.Timing
	// Authorizer decides who may log in; nil admits everybody.
	Authorizer Authorizer
	// ReplaceFromAnywhere lets a login from one address end the channels that the same initiator
	// port has from another one. Port ids are not authenticated, so whoever knows one could end
	// the sessions of its owner: without this such logins are refused while the channels live.
	ReplaceFromAnywhere bool
}

// Limits bounds what initiators may use together. Zero values mean those of DefaultLimits.
type Limits struct {
	// Channels is the most channels of the target. Those that a login has replaced go on top of it
	// until they have ended, up to as many again.
	Channels int
	// ChannelsPerPort is the most of one port of a device, replaced ones as with Channels. 0 means as many as Channels.
	ChannelsPerPort int
	// ChannelsPerNexus is the most channels of one I_T nexus.
	ChannelsPerNexus int
	// Reserve is how many of Channels, and of ChannelsPerPort, only the first channel of a nexus may use, so that a host
	// with many channels cannot keep another one out. It is cut to what leaves one for further channels. Negative means none.
	Reserve int
	// Logins is the most logins being examined at one time; further ones wait.
	Logins int
	// LoginTime bounds the examination of one login, the authoriser included.
	LoginTime time.Duration
}

// DefaultLimits are the limits in force where none is configured.
func DefaultLimits() Limits {
	return Limits{Channels: 256, ChannelsPerNexus: 32, Reserve: 32, Logins: 32, LoginTime: 20 * time.Second}
}

// most is how many channels there can be at once under a limit, those that are being replaced included.
func most(limit int) int { return 2 * limit }

// kept is how much of a limit only first channels may use.
func (l *Limits) kept(limit int) int { return min(l.Reserve, limit-1) }

// ErrConfig is wrapped by the errors of New, AddUnit and Start that the configuration is to blame for.
var ErrConfig = errors.New("wrong target configuration")

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Plan == (ioctx.Plan{}) {
		c.Plan = ioctx.DefaultPlan()
	}
	d := DefaultLimits()
	l := &c.Limits
	for _, f := range []struct{ v, def *int }{
		{&l.Channels, &d.Channels}, {&l.ChannelsPerNexus, &d.ChannelsPerNexus}, {&l.Reserve, &d.Reserve}, {&l.Logins, &d.Logins},
	} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	if l.LoginTime == 0 {
		l.LoginTime = d.LoginTime
	}
	if l.ChannelsPerPort == 0 {
		l.ChannelsPerPort = l.Channels
	}
	l.Reserve = max(min(l.Reserve, l.Channels-1), 0)
	return c
}

// queueDepth is how many completions there can be at once: all work of all channels, when they fail together.
func (c *Config) queueDepth() int {
	return c.workOf(&c.Plan)
}

// workOf is how many work requests there can be under a plan: receives of each channel's own, too, for devices that share none.
func (c *Config) workOf(p *ioctx.Plan) int {
	return most(c.Limits.Channels)*(p.Receives()+p.SendWork) + p.SharedReceives
}

// validate names everything that is wrong.
func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.PortIDs) > 0, "no target port id")
	for _, id := range c.PortIDs {
		check(!id.IsZero(), "the target port id is zero")
	}
	for _, svc := range c.Services {
		if svc.ID != 0 {
			check(rdma.IsServiceID(svc.ID) && svc == rdma.Service{ID: svc.ID}, "service %s cannot be listened to", svc)
			continue
		}
		check(svc.Addr.Port() != 0, "service %s has no port", svc)
	}
	l := &c.Limits
	check(l.Channels > 0 && l.ChannelsPerPort > 0 && l.ChannelsPerNexus > 0 && l.Logins > 0 && l.LoginTime > 0, "negative limit: %+v", *l)
	if err := c.Plan.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("target %s: %w: %w", c.Name, ErrConfig, errors.Join(errs...))
}
