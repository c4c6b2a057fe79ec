//go:build verbs

package verbs

import (
	"net/netip"
	"path"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config is the configuration of a Provider. Zero values take the defaults.
type Config struct {
	// Name is the provider's name; "verbs".
	Name string
	// Log is where the provider logs; nil is nowhere.
	Log hclog.Logger
	// Devices names the devices to use, or gives patterns of names such as "mlx5_*" (path.Match); none means all.
	Devices []string
	// Addrs restricts the devices to those that have one of these addresses; none means all.
	Addrs []netip.Addr
	// MaxReads is how many RDMA READs a connection may have outstanding each way, at most what the device can; 16.
	MaxReads int
	// ConnectTimeout bounds a connection attempt that names no timeout, and the peer's answer to our reply; 20 s.
	ConnectTimeout time.Duration
	// RequestPatience is how long a request may go unanswered before it is given up; 60 s.
	RequestPatience time.Duration
	// Backlog is how many requests may wait in a listener; more are refused; 128.
	Backlog int
}

func (c Config) withDefaults() Config {
	orDefault(&c.Name, "verbs")
	orDefault(&c.MaxReads, 16)
	orDefault(&c.ConnectTimeout, 20*time.Second)
	orDefault(&c.RequestPatience, time.Minute)
	orDefault(&c.Backlog, 128)
	c.MaxReads = min(max(c.MaxReads, 1), 128)
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return c
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// names tells whether a device of that name is to be used.
func (c *Config) names(name string) bool {
	return len(c.Devices) == 0 || slices.ContainsFunc(c.Devices, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// wants tells whether a device is to be used, by the addresses that it has now.
func (c *Config) wants(d *Device) bool {
	return len(c.Addrs) == 0 || slices.ContainsFunc(c.Addrs, d.hasAddr)
}

// sameAddr compares an address that was asked for with one that there is; the zone may be left out.
func sameAddr(asked, is netip.Addr) bool {
	asked = asked.Unmap()
	return asked == is || asked == is.WithZone("")
}
