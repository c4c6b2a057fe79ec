package config

import (
	"net/netip"
	"time"
)

// The RDMA providers.
const (
	ProviderRoCE  = "roce"
	ProviderVerbs = "verbs"
)

// Config is a complete, validated configuration.
type Config struct {
	// File is the file that was read; empty if none.
	File string `json:"file" yaml:"-"`
	// Provider is the RDMA provider: ProviderRoCE or ProviderVerbs. Whether the latter is built in is the program's matter.
	Provider string `json:"provider" yaml:"provider"`
	// Listen is the addresses to accept logins at. Empty means every address of every interface that is up, but loopback.
	Listen []netip.Addr `json:"listen" yaml:"listen"`
	// Port is the RDMA/CM port.
	Port uint16 `json:"port" yaml:"port"`
	// Target is the target's identity on the wire.
	Target Target `json:"target" yaml:"target"`
	// Auth decides who may log in.
	Auth Auth `json:"auth" yaml:"auth"`
	// IOCtx plans how I/O contexts are shared out.
	IOCtx IOCtx `json:"ioctx" yaml:"ioctx"`
	// Login bounds what initiators may ask for.
	Login Login `json:"login" yaml:"login"`
	// Session governs living sessions.
	Session Session `json:"session" yaml:"session"`
	// LUNs is the map of LUNs that every permitted initiator sees.
	LUNs []LUN `json:"luns" yaml:"luns"`
	// PluginDirs is where plugin executables are looked for, in order.
	PluginDirs []string `json:"plugin_dir" yaml:"plugin_dir"`
	// Plugin governs plugin processes.
	Plugin Plugin `json:"plugin" yaml:"plugin"`
	// Admin is the control interface.
	Admin Admin `json:"admin" yaml:"admin"`
	// Log governs logging.
	Log Log `json:"log" yaml:"log"`
	// RoCE governs the roce provider.
	RoCE RoCE `json:"roce" yaml:"roce"`
	// Verbs governs the verbs provider.
	Verbs Verbs `json:"verbs" yaml:"verbs"`
}

// Target is the identity of the SRP target port (SRP r16a annex B).
type Target struct {
	// IDExt and IOCGUID are the two halves of the target port identifier, which initiators give as id_ext and ioc_guid.
	IDExt   uint64
	IOCGUID uint64
}

// LoginTime bounds the examination of one login, the auth plugin's decision included.
const LoginTime = 20 * time.Second

// Auth is the plugin that decides who may log in, and to what.
type Auth struct {
	// Plugin is the name of its executable; empty means none. With it, nobody logs in whom it does not let in.
	Plugin string `json:"plugin" yaml:"plugin"`
	// Config is the plugin's own configuration.
	Config map[string]string `json:"config" yaml:"config"`
	// Timeout bounds one decision; less than LoginTime.
	Timeout time.Duration `json:"timeout" yaml:"timeout"`
}

// IOCtx is the plugin that plans how many I/O contexts there are, and how large they are.
type IOCtx struct {
	// Plugin is the name of its executable; empty means none: the plan is that of this configuration.
	Plugin string `json:"plugin" yaml:"plugin"`
	// Config is the plugin's own configuration.
	Config map[string]string `json:"config" yaml:"config"`
}

// Login bounds what initiators may ask for.
type Login struct {
	// Initiators lists the initiator port identifiers (32 hex digits), their GUID halves (16) or source addresses
	// that may log in. Empty admits everybody, unless there is an Auth.Plugin, with which it must be empty.
	Initiators []string `json:"initiators" yaml:"initiators"`
	// MaxChannels is the most channels of one I_T nexus.
	MaxChannels int `json:"max_channels" yaml:"max_channels"`
	// TotalChannels is the most channels of all initiators.
	TotalChannels int `json:"total_channels" yaml:"total_channels"`
	// PortChannels is the most channels of one port of an RDMA device; 0 means as many as TotalChannels.
	PortChannels int `json:"port_channels" yaml:"port_channels"`
	// Reserve is how many of TotalChannels, and of PortChannels, are kept for the first channels of initiators.
	Reserve int `json:"reserve" yaml:"reserve"`
	// QueueDepth is the request limit granted to each channel.
	QueueDepth int `json:"queue_depth" yaml:"queue_depth"`
	// SharedReceives is how many receive buffers the channels of a device share; 0 means that each has its own.
	SharedReceives int `json:"shared_receives" yaml:"shared_receives"`
	// Immediate offers immediate data.
	Immediate bool `json:"immediate" yaml:"immediate"`
}

// Session governs living sessions.
type Session struct {
	// DeadPeer is how long a silent peer is kept: the bound within which a session of a vanished initiator is freed.
	DeadPeer time.Duration `json:"dead_peer" yaml:"dead_peer"`
	// MaxTransfer is the longest transfer of one command in bytes, as reported in the Block Limits page.
	MaxTransfer uint64 `json:"max_transfer" yaml:"max_transfer"`
}

// Values of LUN.Process.
const (
	ProcessOwn    = "own"
	ProcessShared = "shared"
)

// LUN is one logical unit.
type LUN struct {
	// LUN is the number, 0..16383.
	LUN uint16 `json:"lun" yaml:"lun"`
	// Name is the operator's name, unique. The identity shown to initiators derives from it unless Serial is set.
	Name string `json:"name" yaml:"name"`
	// Plugin is the name of the backstore's executable.
	Plugin string `json:"plugin" yaml:"plugin"`
	// Process is ProcessOwn, or ProcessShared: the LUNs of one plugin that say so have one process, and one arena of the
	// largest size that one of them has.
	Process string `json:"process" yaml:"process"`
	// Config is the plugin's own configuration.
	Config map[string]string `json:"config" yaml:"config"`
	// Serial is the unit serial number; empty means derived from the target's identity and Name.
	Serial string `json:"serial" yaml:"serial"`
	// ReadOnly refuses writes.
	ReadOnly bool `json:"read_only" yaml:"read_only"`
	// Arena is the memory shared with the plugin process for data in flight, in bytes; 0 means what the plan in force says.
	Arena uint64 `json:"arena" yaml:"arena"`
}

// Plugin governs plugin processes.
type Plugin struct {
	// StartTimeout bounds the start of a plugin, up to its store being open.
	StartTimeout time.Duration `json:"start_timeout" yaml:"start_timeout"`
	// CallTimeout is the deadline of one request to a store, more than RestartWait.
	CallTimeout time.Duration `json:"call_timeout" yaml:"call_timeout"`
	// RestartWait is how long commands wait for a dead plugin's replacement before they fail retryably.
	RestartWait time.Duration `json:"restart_wait" yaml:"restart_wait"`
	// Hang is how long a plugin may leave requests untaken, or give no sign of life, before it is killed.
	Hang time.Duration `json:"hang" yaml:"hang"`
}

// Admin is the control interface.
type Admin struct {
	// Socket is the path of the control socket.
	Socket string `json:"socket" yaml:"socket"`
	// Metrics is the address of the Prometheus endpoint, such as 127.0.0.1:9464; empty means none.
	Metrics string `json:"metrics" yaml:"metrics"`
}

// Log governs logging.
type Log struct {
	// Level is trace, debug, info, warn or error.
	Level string `json:"level" yaml:"level"`
	// JSON writes one JSON object a line instead of text.
	JSON bool `json:"json" yaml:"json"`
}

// RoCE governs the roce provider.
type RoCE struct {
	// Interfaces is the rules that select the network interfaces that are HCAs: names and patterns of names, addresses, prefixes, all;
	// with ! before them to leave out. Empty means all.
	Interfaces []string `json:"interfaces" yaml:"interfaces"`
	// TargetAckDelay is what the target tells initiators about its slowness: 4.096 us * 2^n
	// (IBTA vol 1, 12.7.33). Virtual or slow peers want 22.
	TargetAckDelay int `json:"target_ack_delay" yaml:"target_ack_delay"`
	// ReceiveBuffer is the socket receive buffer asked for, in bytes.
	ReceiveBuffer uint64 `json:"receive_buffer" yaml:"receive_buffer"`
	// Segmentation lets the kernel cut bursts into packets (UDP_SEGMENT) where it can.
	Segmentation bool `json:"segmentation" yaml:"segmentation"`
}

// Verbs governs the verbs provider.
type Verbs struct {
	// ServiceID takes logins by service id at InfiniBand ports, besides those by address; the id is that of Port (rdma.ServiceID).
	ServiceID bool `json:"service_id" yaml:"service_id"`
}
