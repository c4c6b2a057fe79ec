package host

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/internal/schemawire"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// self is what a plugin says about itself, if it does.
type self struct {
	description schema.Description
	known       bool
}

func (s *self) learn(m *pluginpb.Description) error {
	if m == nil {
		return nil
	}
	d, err := schemawire.Description(m)
	if err != nil {
		return errors.New(line(fmt.Sprintf("its description of itself cannot be used: %v", err)))
	}
	s.description, s.known = d, true
	return nil
}

// check holds a configuration against the plugin's settings, if it has told them. The error wraps a *schema.Error.
func (s *self) check(config map[string]string) error {
	if !s.known {
		return nil
	}
	if _, err := s.description.Settings.Read(config); err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	return nil
}

// Description is what the plugin says about itself; false if it does not.
func (p *Process) Description() (schema.Description, bool) { return p.self.description, p.self.known }

// Description is what the plugin says about itself; false if it does not.
func (c *Control) Description() (schema.Description, bool) { return c.self.description, c.self.known }
