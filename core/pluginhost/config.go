package pluginhost

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// Defaults of Config.
const (
	DefaultReady      = 30 * time.Second
	DefaultStop       = 15 * time.Second
	DefaultHang       = 30 * time.Second
	DefaultBackoffMin = 100 * time.Millisecond
	DefaultBackoffMax = 10 * time.Second
	// steady is for how long a process must have worked for its end to count as the first.
	steady = time.Minute
)

// Config is the configuration of one plugin.
type Config struct {
	// Name names it to the operator.
	Name string
	// Path is the executable, see Find. It is resolved again at each start if Resolve is set. The catalogue of its directory and the
	// manifest beside it are read at each start too: a mend of either is found by the next try.
	Path    string
	Resolve func() (string, error)
	// Settings are what the manifest's ${config.KEY} stand for: the configurations of the stores that the plugin is for.
	Settings []map[string]string
	// Args and Env are the process's arguments and its whole environment.
	Args, Env []string
	// Arena is the plugin's, and no other plugin's. It stays the caller's and must outlive the Plugin.
	Arena *host.Arena
	// Slow keeps data on the gRPC connection.
	Slow bool
	// Ready bounds a start, and the opening of a store with its wait for the fence.
	Ready time.Duration
	// Stop bounds an orderly end, after which the process is killed.
	Stop time.Duration
	// Hang is for how long a plugin may leave requests untaken before it is killed.
	Hang time.Duration
	// BackoffMin and BackoffMax bound the pause before a restart. The first restart after a steady time has none.
	BackoffMin, BackoffMax time.Duration
	// OnChange, if set, is called after each change of State, from one goroutine. It must not block.
	OnChange func(Status)
	Log      hclog.Logger
}

// ErrConfig says that a Config cannot be used.
var ErrConfig = errors.New("invalid plugin configuration")

// wait is a duration of a configuration and its default.
type wait struct {
	v *time.Duration
	d time.Duration
}

func setWaits(name string, waits ...wait) error {
	for _, w := range waits {
		if *w.v < 0 {
			return fmt.Errorf("pluginhost: %s: a negative duration: %w", name, ErrConfig)
		}
		if *w.v == 0 {
			*w.v = w.d
		}
	}
	return nil
}

func (c *Config) setDefaults() error {
	if err := setWaits(c.Name, wait{&c.Ready, DefaultReady}, wait{&c.Stop, DefaultStop}, wait{&c.Hang, DefaultHang},
		wait{&c.BackoffMin, DefaultBackoffMin}, wait{&c.BackoffMax, DefaultBackoffMax}); err != nil {
		return err
	}
	if c.Name == "" || c.Log == nil || c.Arena == nil || (c.Path == "" && c.Resolve == nil) {
		return fmt.Errorf("pluginhost: a plugin needs a name, a path, an arena and a logger: %w", ErrConfig)
	}
	c.BackoffMax = max(c.BackoffMax, c.BackoffMin)
	return nil
}

func (c *Config) path() (string, error) {
	if c.Resolve != nil {
		return c.Resolve()
	}
	return c.Path, nil
}
