package config

import "strings"

// Key is one scalar setting.
type Key struct {
	// Name is the dotted key.
	Name string
	// Default is what holds when nobody sets it; its type is the setting's: string, int, bool or []string.
	Default any
	// Help says what it is, with units.
	Help string
}

// Flag is the command line flag of the key, without dashes before it.
func (k Key) Flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name) }

// Env is the environment variable of the key.
func (k Key) Env() string {
	return "GOSRPT_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Keys lists every scalar setting. The maps auth.config and ioctx.config, and luns, are not among them. Durations and sizes are strings such as 30s and 64MiB.
func Keys() []Key {
	return []Key{
		{"provider", "roce", "RDMA provider: roce, or verbs where it is built in"},
		{"listen", []string{}, "addresses to accept logins at (default: all but loopback)"},
		{"port", 5555, "RDMA/CM port"},
		{"target.id_ext", "", "first half of the target port id, 16 hex digits (default: target.ioc_guid)"},
		{"target.ioc_guid", "", "second half of the target port id, 16 hex digits (default: derived from the machine id)"},
		{"auth.plugin", "", "plugin that decides who may log in and what it sees; without its word nobody does (default: none)"},
		{"auth.timeout", "5s", "how long the auth plugin may take for one decision, after which the login is refused; less than 20s"},
		{"ioctx.plugin", "", "plugin that plans credits, queues and memory (default: none)"},
		{"login.initiators", []string{}, "initiator port ids, their GUIDs, or addresses that may log in (default: everybody); not with auth.plugin"},
		{"login.max_channels", 16, "most channels of one initiator"},
		{"login.total_channels", 256, "most channels of all initiators"},
		{"login.port_channels", 0, "most channels of one port of an RDMA device (0: as many as login.total_channels)"},
		{"login.reserve", 32, "how many of login.total_channels and login.port_channels are kept for the first channel of each initiator"},
		{"login.queue_depth", 128, "request limit granted to each channel"},
		{"login.shared_receives", 0, "receive buffers that the channels of a device share (0: each channel has its own)"},
		{"login.immediate", true, "offer immediate data"},
		{"session.dead_peer", "30s", "bound within which a vanished initiator's session is freed"},
		{"session.max_transfer", "4MiB", "longest transfer of one command"},
		{"plugin_dir", []string{"/usr/lib/gosrpt/plugins", "/usr/local/lib/gosrpt/plugins"}, "directories of plugin executables"},
		{"plugin.start_timeout", "30s", "bound of a plugin's start"},
		{"plugin.call_timeout", "60s", "deadline of one request to a store; more than plugin.restart_wait"},
		{"plugin.restart_wait", "30s", "how long commands wait for a dead plugin's replacement"},
		{"plugin.hang", "30s", "how long a plugin may leave requests untaken before it is killed"},
		{"admin.socket", "/run/gosrpt/srptd.sock", "path of the control socket"},
		{"admin.metrics", "", "address of the Prometheus endpoint (default: none)"},
		{"log.level", "info", "trace, debug, info, warn or error"},
		{"log.json", false, "log JSON objects instead of text"},
		{"roce.interfaces", []string{}, "network interfaces to serve: names, patterns such as eth*, addresses, prefixes, all; !RULE leaves out (default: all that are up but loopback)"},
		{"roce.target_ack_delay", 16, "slowness told to initiators, as n of 4.096us*2^n; 22 for virtual machines"},
		{"roce.receive_buffer", "32MiB", "socket receive buffer asked for"},
		{"roce.segmentation", true, "let the kernel cut bursts into packets"},
		{"verbs.service_id", true, "at InfiniBand ports take logins by service id too, 00000000013fPPPP where PPPP is the port, and tell it in discovery"},
	}
}
