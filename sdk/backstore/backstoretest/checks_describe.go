package backstoretest

import (
	"maps"
	"strings"

	"github.com/gosrpt/gosrpt/sdk/schema"
)

// describing are the checks of what a plugin says about itself.
var describing = []check{
	{"the description is one that a host can use", checkDescription},
	{"a setting that is required cannot be left out", checkRequired},
	{"a default means what its setting left out means", checkDefaults},
}

// described is the description, or the check is skipped.
func (r *run) described() schema.Description {
	r.Helper()
	d, ok := r.Backstore.(schema.Describer)
	if !ok {
		r.Skip("the backstore does not describe itself")
	}
	return d.Describe()
}

func checkDescription(r *run) {
	d := r.described()
	if err := d.Settings.Check(); err != nil {
		r.Fatal(err)
	}
	if d.Name == "" || d.Version == "" || d.Summary == "" {
		r.Errorf("name, version or summary are missing: %q, %q, %q", d.Name, d.Version, d.Summary)
	}
	if strings.ContainsAny(d.Name+d.Version+d.Summary, "\n\r") {
		r.Error("name, version or summary have more than one line")
	}
	for _, s := range d.Settings {
		if s.Help == "" {
			r.Errorf("%s has no help", s.Key)
		}
	}
	if _, err := d.Settings.Read(r.config); err != nil {
		r.Errorf("the configuration of a store that opens is refused by the schema: %v", err)
	}
	if ro := r.Subject.ReadOnly; ro != nil {
		if _, err := d.Settings.Read(ro(r.config)); err != nil {
			r.Errorf("the read-only configuration is refused by the schema: %v", err)
		}
	}
}

func checkRequired(r *run) {
	any := false
	for _, s := range r.described().Settings {
		if !s.Required {
			continue
		}
		any = true
		config := maps.Clone(r.config)
		delete(config, s.Key)
		st, err := r.Backstore.Open(r.ctx, config)
		if err == nil {
			st.Close()
			r.Errorf("Open does without %s, which is required", s.Key)
		} else if !strings.Contains(err.Error(), s.Key) {
			r.Errorf("without %s the error does not name it: %v", s.Key, err)
		}
	}
	if !any {
		r.Skip("no setting is required")
	}
}

func checkDefaults(r *run) {
	config := maps.Clone(r.config)
	for _, s := range r.described().Settings {
		if _, set := config[s.Key]; !set && s.Default != "" {
			config[s.Key] = s.Default
		}
	}
	if len(config) == len(r.config) {
		r.Skip("there are no defaults, or the configuration sets all of them")
	}
	r.open()
	was := r.info
	r.close()
	r.reopen(config)
	if r.info != was {
		r.Errorf("with the defaults written out the store is %+v, and without them %+v", r.info, was)
	}
}
