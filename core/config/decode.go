package config

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cast"
	"github.com/spf13/viper"
)

// reader takes typed values out of viper and notes what is wrong with them.
type reader struct {
	v *viper.Viper
	p *problems
}

func (r reader) str(key string) string {
	s, err := cast.ToStringE(r.v.Get(key))
	if err != nil {
		r.p.add(key, "%v is not a text", r.v.Get(key))
	}
	return s
}

func (r reader) integer(key string) int {
	n, err := cast.ToIntE(r.v.Get(key))
	if err != nil {
		r.p.add(key, "%v is not a number", r.v.Get(key))
	}
	return n
}

func (r reader) boolean(key string) bool {
	b, err := cast.ToBoolE(r.v.Get(key))
	if err != nil {
		r.p.add(key, "%v is neither true nor false", r.v.Get(key))
	}
	return b
}

func (r reader) list(key string) []string {
	if s, ok := r.v.Get(key).(string); ok { // from the environment
		return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
	}
	l, err := cast.ToStringSliceE(r.v.Get(key))
	if err != nil {
		r.p.add(key, "%v is not a list", r.v.Get(key))
	}
	return l
}

func (r reader) duration(key string) time.Duration {
	d, err := time.ParseDuration(r.str(key))
	if err != nil {
		r.p.add(key, "%q is not a duration such as 30s or 5m", r.str(key))
	} else if d <= 0 {
		r.p.add(key, "%s must be more than zero", d)
	}
	return d
}

func (r reader) size(key string) uint64 { return parseSize(key, r.str(key), r.p) }

func parseSize(where, s string, p *problems) uint64 {
	n, err := humanize.ParseBytes(s)
	if err != nil {
		p.add(where, "%q is not a size such as 64MiB or 1GB", s)
	}
	return n
}

// guid parses 16 hex digits with or without 0x and colons.
func (r reader) guid(key string) uint64 {
	s := r.str(key)
	clean := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "0x"), ":", "")
	if len(clean) != 16 {
		r.p.add(key, "%q is not 16 hex digits", s)
		return 0
	}
	n, err := strconv.ParseUint(clean, 16, 64)
	if err != nil {
		r.p.add(key, "%q is not 16 hex digits", s)
	}
	return n
}

func (r reader) target() Target {
	var t Target
	if r.str("target.ioc_guid") == "" {
		guid, err := defaultGUID()
		if err != nil {
			r.p.add("target.ioc_guid", "%v; set it", err)
		}
		t.IOCGUID = guid
	} else {
		t.IOCGUID = r.guid("target.ioc_guid")
	}
	t.IDExt = t.IOCGUID
	if r.str("target.id_ext") != "" {
		t.IDExt = r.guid("target.id_ext")
	}
	return t
}

func (r reader) addrs(key string) []netip.Addr {
	var out []netip.Addr
	for _, s := range r.list(key) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			r.p.add(key, "%q is not an IP address", s)
			continue
		}
		if a.IsLinkLocalUnicast() && a.Is6() && a.Zone() == "" {
			r.p.add(key, "link-local address %s needs its interface: %s%%eth0", a, a)
		}
		out = append(out, a.Unmap())
	}
	return out
}

// initiators checks and normalises identifiers: 32 or 16 hex digits, or an IP address.
func (r reader) initiators(key string) []string {
	var out []string
	for _, s := range r.list(key) {
		if a, err := netip.ParseAddr(s); err == nil && !strings.HasPrefix(strings.ToLower(s), "0x") {
			out = append(out, a.Unmap().String())
			continue
		}
		clean := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "0x"), ":", "")
		b, err := hex.DecodeString(clean)
		switch {
		case err == nil && len(b) == 16:
			out = append(out, clean)
		case err == nil && len(b) == 8:
			out = append(out, clean[:4]+":"+clean[4:8]+":"+clean[8:12]+":"+clean[12:])
		default:
			r.p.add(key, "%q is neither an initiator port id of 32 hex digits, nor its GUID of 16, nor an IP address", s)
		}
	}
	return out
}

func decode(v *viper.Viper, p *problems) *Config {
	r := reader{v, p}
	port := r.integer("port")
	if port < 1 || port > 65535 {
		p.add("port", "%d is not in 1..65535", port)
	}
	return &Config{
		Provider: r.str("provider"),
		Listen:   r.addrs("listen"),
		Port:     uint16(port),
		Target:   r.target(),
		Auth:     Auth{Plugin: r.str("auth.plugin"), Timeout: r.duration("auth.timeout")},
		IOCtx:    IOCtx{Plugin: r.str("ioctx.plugin")},
		Login: Login{
			Initiators:     r.initiators("login.initiators"),
			MaxChannels:    r.integer("login.max_channels"),
			TotalChannels:  r.integer("login.total_channels"),
			PortChannels:   r.integer("login.port_channels"),
			Reserve:        r.integer("login.reserve"),
			QueueDepth:     r.integer("login.queue_depth"),
			SharedReceives: r.integer("login.shared_receives"),
			Immediate:      r.boolean("login.immediate"),
		},
		Session: Session{DeadPeer: r.duration("session.dead_peer"), MaxTransfer: r.size("session.max_transfer")},
		Plugin: Plugin{
			StartTimeout: r.duration("plugin.start_timeout"),
			CallTimeout:  r.duration("plugin.call_timeout"),
			RestartWait:  r.duration("plugin.restart_wait"),
			Hang:         r.duration("plugin.hang"),
		},
		PluginDirs: r.list("plugin_dir"),
		Admin:      Admin{Socket: r.str("admin.socket"), Metrics: r.str("admin.metrics")},
		Log:        Log{Level: r.str("log.level"), JSON: r.boolean("log.json")},
		RoCE: RoCE{
			Interfaces:     r.list("roce.interfaces"),
			TargetAckDelay: r.integer("roce.target_ack_delay"),
			ReceiveBuffer:  r.size("roce.receive_buffer"),
			Segmentation:   r.boolean("roce.segmentation"),
		},
		Verbs: Verbs{ServiceID: r.boolean("verbs.service_id")},
	}
}
