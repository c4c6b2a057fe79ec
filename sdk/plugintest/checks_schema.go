package plugintest

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/sdk/schema"
)

// settings are those that the plugin declares; without any the check is skipped.
func (r *run) settings() schema.Schema {
	r.Helper()
	if !r.about.Described {
		r.Skip("the plugin does not describe its settings")
	}
	return r.about.Description.Settings
}

func checkSchema(r *run) {
	s := r.settings()
	if err := s.Check(); err != nil {
		r.Errorf("%v", err)
	}
	if d := r.about.Description; d.Name == "" || d.Version == "" {
		r.Errorf("the name is %q and the version %q; neither may be empty", d.Name, d.Version)
	}
	if _, err := s.Read(r.config(r.TB)); err != nil {
		r.Errorf("the declared settings refuse the configuration of this check: %v", err)
	}
}

// refuses opens a configuration that must be refused by an error that names key. It asks the process itself: a host holds a
// configuration against the declared settings before it asks.
func (r *run) refuses(config map[string]string, key, why string) {
	r.Helper()
	p := r.raw()
	defer p.end()
	err := r.openRaw(p.conn, config)
	switch {
	case err == nil:
		r.Errorf("%s: Open takes it %s", key, why)
	case !strings.Contains(err.Error(), key):
		r.Errorf("%s: the error %s does not name it: %v", key, why, err)
	}
}

// checkUnknown needs no declaration: no contract lets an unknown key pass.
func checkUnknown(r *run) {
	const key = "no-such-key-of-any-plugin"
	config := r.config(r.TB)
	config[key] = "1"
	r.refuses(config, key, "although nobody has such a setting")
}

func checkRequired(r *run) {
	config := r.config(r.TB)
	some := false
	for _, s := range r.settings() {
		if s.Required {
			some = true
			less := maps.Clone(config)
			delete(less, s.Key)
			r.refuses(less, s.Key, "without it, although it is required")
		}
	}
	if !some {
		r.Skip("no setting is required")
	}
}

func checkValues(r *run) {
	config := r.config(r.TB)
	some := false
	for _, s := range r.settings() {
		for _, bad := range impossible(&s) {
			some = true
			other := maps.Clone(config)
			other[s.Key] = bad
			r.refuses(other, s.Key, "as "+strconv.Quote(bad))
		}
	}
	if !some {
		r.Skip("every setting takes any text")
	}
}

// impossible are values that a setting cannot have.
func impossible(s *schema.Setting) []string {
	var bad []string
	switch s.Kind {
	case schema.KindNumber, schema.KindSize:
		bad = append(bad, "no-such-value", "-1x")
		if s.Min > 0 {
			bad = append(bad, strconv.FormatInt(s.Min-1, 10))
		}
		if s.Max != 0 && s.Max != math.MaxInt64 {
			bad = append(bad, strconv.FormatInt(s.Max+1, 10))
		}
	case schema.KindBool, schema.KindDuration, schema.KindChoice:
		bad = append(bad, "no-such-value")
	}
	return bad
}
