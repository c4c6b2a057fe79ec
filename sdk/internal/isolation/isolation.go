// Package isolation says how a plugin's process is kept apart. The host writes it, its launcher (sdk/internal/launcher) does it.
package isolation

// Spec is how a process is kept apart. The zero value is what every plugin gets: its own process group, no new privileges,
// a umask of 077.
type Spec struct {
	// User, if set, is who the process runs as.
	User *User `json:",omitempty"`
	// Limits are set in order, as setrlimit(2) does.
	Limits []Limit `json:",omitempty"`
	// NewPrivs lets the process gain privileges by executing a setuid program.
	NewPrivs bool `json:",omitempty"`
	// PIDNamespace makes the process the first of a PID namespace: when it ends, the kernel kills all its descendants.
	PIDNamespace bool `json:",omitempty"`
	// Files, if set, is what the process reaches of the file system.
	Files *Files `json:",omitempty"`
	// Deny names system calls that fail with EPERM.
	Deny []string `json:",omitempty"`
}

// User is a user, its group and its further groups.
type User struct {
	UID, GID uint32
	Groups   []uint32 `json:",omitempty"`
}

// Limit is a resource limit, soft and hard.
type Limit struct {
	Name     string
	Resource int
	Value    uint64
}

// Files are the paths that a process reaches, with all that is beneath them. Its executable, its private directory, the
// system's programs and libraries and /dev/null and its like need no mention.
type Files struct {
	ReadOnly  []string `json:",omitempty"`
	ReadWrite []string `json:",omitempty"`
	// Required refuses to start where the kernel has no Landlock. Otherwise the process starts unrestricted and says so.
	Required bool `json:",omitempty"`
}

// Launches tells whether it takes a launcher, a program between the host's fork and the plugin.
func (s Spec) Launches() bool {
	return s.User != nil || len(s.Limits) > 0 || s.Files != nil || len(s.Deny) > 0
}

// Descriptors of a plugin process at its start, beyond the standard three. Those of the launcher and of the file are
// closed before the plugin runs, but for a script, which its interpreter reads by FileFD.
const (
	ChannelFD = 3
	StatusFD  = 4
	FileFD    = 5
)

// Launch is what the launcher is told, in its first argument. The plugin's arguments follow.
type Launch struct {
	Spec
	// Path is the executable. With File set, descriptor FileFD is executed in its place.
	Path string
	File bool
	// Script keeps FileFD open.
	Script bool
	// Private is the process's private directory.
	Private string
	// Parent is the host's process number, 0 in a PID namespace.
	Parent int
}

// Failure is what a launcher writes to StatusFD, as JSON, when it cannot become the plugin.
type Failure struct {
	// Text says which step failed, why, and what to do.
	Text string
	// Exec is the error number of the execution of the plugin, if that is what failed.
	Exec int `json:",omitempty"`
}

// Name is the launcher's argument 0.
const Name = "gosrpt-plugin-launcher"
