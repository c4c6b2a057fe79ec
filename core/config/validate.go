package config

import (
	"slices"
	"strings"
)

// Bounds of what the protocol and the engine can do.
const (
	minQueueDepth  = 4
	maxQueueDepth  = 4096
	maxTransfer    = 16 << 20
	minArena       = 1 << 20
	maxSerialBytes = 32
)

func (c *Config) validate(p *problems) {
	if c.Provider != ProviderRoCE && c.Provider != ProviderVerbs {
		p.add("provider", "%q is neither %s nor %s", c.Provider, ProviderRoCE, ProviderVerbs)
	}
	between(p, "login.max_channels", c.Login.MaxChannels, 1, 1024)
	between(p, "login.total_channels", c.Login.TotalChannels, 2, 65536)
	between(p, "login.port_channels", c.Login.PortChannels, 0, 65536)
	between(p, "login.reserve", c.Login.Reserve, 0, 65536)
	between(p, "login.queue_depth", c.Login.QueueDepth, minQueueDepth, maxQueueDepth)
	if n := c.Login.SharedReceives; n != 0 {
		between(p, "login.shared_receives", n, 16, 65536)
	}
	between(p, "roce.target_ack_delay", c.RoCE.TargetAckDelay, 0, 31)
	if t := c.Session.MaxTransfer; t < 4096 || t > maxTransfer || t%4096 != 0 {
		p.add("session.max_transfer", "%d is not a multiple of 4096 in 4KiB..16MiB", t)
	}
	if !slices.Contains([]string{"trace", "debug", "info", "warn", "error"}, c.Log.Level) {
		p.add("log.level", "%q is none of trace, debug, info, warn, error", c.Log.Level)
	}
	if c.Admin.Socket == "" {
		p.add("admin.socket", "must name a path")
	}
	if c.RoCE.ReceiveBuffer < 64<<10 || c.RoCE.ReceiveBuffer > 1<<30 {
		p.add("roce.receive_buffer", "%d is not in 64KiB..1GiB", c.RoCE.ReceiveBuffer)
	}
	c.validateInterfaces(p)
	c.validatePlugins(p)
	c.validateLUNs(p)
}

func (c *Config) validateLUNs(p *problems) {
	byLUN, byName := map[uint16]string{}, map[string]bool{}
	for _, l := range c.LUNs {
		where := "luns: " + l.Name
		if other, dup := byLUN[l.LUN]; dup {
			p.add(where, "LUN %d is taken by %s", l.LUN, other)
		}
		if folded := strings.ToLower(l.Name); byName[folded] {
			p.add(where, "the name is used twice (letter case does not tell names apart)")
		} else {
			byName[folded] = true
		}
		byLUN[l.LUN] = l.Name
		l.validate(where, c.Session.MaxTransfer, p)
	}
}

func (l *LUN) validate(where string, transfer uint64, p *problems) {
	if !isPluginName(l.Plugin) {
		p.add(where, "plugin %q must be the name of an executable in a plugin_dir", l.Plugin)
	}
	if l.Process != ProcessOwn && l.Process != ProcessShared {
		p.add(where, "process %q is neither %s nor %s", l.Process, ProcessOwn, ProcessShared)
	}
	if l.Arena != 0 && (l.Arena < minArena || l.Arena%4096 != 0 || l.Arena < 2*transfer) {
		p.add(where, "arena of %d bytes must be a multiple of 4096, at least 1MiB and twice session.max_transfer, or 0 for what the plan in force says", l.Arena)
	}
	if len(l.Serial) > maxSerialBytes {
		p.add(where, "serial has %d bytes, at most %d fit", len(l.Serial), maxSerialBytes)
	}
	for _, s := range []string{l.Name, l.Serial} {
		if strings.ContainsFunc(s, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			p.add(where, "%q must be printable ASCII without spaces", s)
		}
	}
}

func between(p *problems, where string, n, low, high int) {
	if n < low || n > high {
		p.add(where, "%d is not in %d..%d", n, low, high)
	}
}
