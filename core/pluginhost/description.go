package pluginhost

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// ErrSettings says that a configuration is not what the plugin's settings permit.
var ErrSettings = errors.New("the configuration does not fit the plugin's settings")

// Description is what the running process says about itself; false if there is none, or it does not say.
func (p *Plugin) Description() (schema.Description, bool) { return described(&p.keeper) }

// Description is what the running process says about itself; false if there is none, or it does not say.
func (a *Auth) Description() (schema.Description, bool) { return described(&a.m.keeper) }

// Description is what the running process says about itself; false if there is none, or it does not say.
func (i *IOCtx) Description() (schema.Description, bool) { return described(&i.m.keeper) }

func described[P interface {
	process
	Description() (schema.Description, bool)
}](k *keeper[P]) (schema.Description, bool) {
	proc, err := k.current()
	if err != nil {
		return schema.Description{}, false
	}
	return proc.Description()
}

// fits checks a store's configuration before the plugin is asked. The error wraps ErrSettings and a *schema.Error.
func (p *Plugin) fits(proc *host.Process, config map[string]string) error {
	d, ok := proc.Description()
	if !ok {
		return nil
	}
	if _, err := d.Settings.Read(config); err != nil {
		return fmt.Errorf("pluginhost: %s: %w: %w", p.cfg.Name, ErrSettings, err)
	}
	return nil
}
