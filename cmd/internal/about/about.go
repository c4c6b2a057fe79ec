// Package about is what the commands print of a plugin's word on itself.
package about

import (
	"fmt"
	"io"
	"strings"

	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// Plugin is a plugin's word on itself as JSON.
type Plugin struct {
	Kind     string `json:"kind"`
	Protocol int    `json:"protocol"`
	Runtime  string `json:"runtime"`
	Ring     bool   `json:"ring"`
	Transfer bool   `json:"transfer"`
	// Described tells whether the plugin says what follows.
	Described bool      `json:"described"`
	Name      string    `json:"name,omitempty"`
	Version   string    `json:"version,omitempty"`
	Summary   string    `json:"summary,omitempty"`
	Settings  []Setting `json:"settings,omitempty"`
}

// Setting is one that the plugin declares.
type Setting struct {
	Key      string   `json:"key"`
	Kind     string   `json:"kind"`
	Default  string   `json:"default"`
	Required bool     `json:"required"`
	Choices  []string `json:"choices,omitempty"`
	Min      int64    `json:"min,omitempty"`
	Max      int64    `json:"max,omitempty"`
	Secret   bool     `json:"secret,omitempty"`
	Help     string   `json:"help"`
}

// Of turns a plugin's word into what is printed.
func Of(a host.About) Plugin {
	p := Plugin{Kind: a.Kind, Protocol: a.Protocol, Runtime: a.Runtime, Ring: a.Ring, Transfer: a.Transfer, Described: a.Described,
		Name: a.Description.Name, Version: a.Description.Version, Summary: a.Description.Summary}
	for _, s := range a.Description.Settings {
		p.Settings = append(p.Settings, Setting{Key: s.Key, Kind: s.Kind.String(), Default: s.Default, Required: s.Required,
			Choices: s.Choices, Min: s.Min, Max: s.Max, Secret: s.Secret, Help: s.Help})
	}
	return p
}

// Write writes it as text in columns that tabs separate.
func (p Plugin) Write(w io.Writer) {
	fmt.Fprintf(w, "kind\t%s\n", p.Kind)
	if p.Described {
		fmt.Fprintf(w, "name\t%s\nversion\t%s\nsummary\t%s\n", p.Name, p.Version, p.Summary)
	}
	fmt.Fprintf(w, "runtime\t%s\nprotocol\tmajor version %d\n", p.Runtime, p.Protocol)
	if p.Kind == host.KindBackstore {
		fmt.Fprintf(w, "data\t%s\npowers\ta store tells them when it is opened\n", p.path())
	}
	switch {
	case !p.Described:
		fmt.Fprintln(w, "settings\tthe plugin does not declare them; see its documentation")
	case len(p.Settings) == 0:
		fmt.Fprintln(w, "settings\tnone")
	default:
		fmt.Fprintln(w, "\nSETTING\tKIND\tDEFAULT\tRANGE\tHELP")
		for _, s := range p.Settings {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Key, s.Kind, s.standing(), s.bounds(), s.Help)
		}
	}
}

func (p Plugin) path() string {
	switch {
	case p.Ring:
		return "shared-memory ring"
	case p.Transfer:
		return "gRPC stream"
	}
	return "gRPC calls"
}

func (s Setting) standing() string {
	switch {
	case s.Required:
		return "(required)"
	case s.Secret && s.Default != "":
		return "(secret)"
	case s.Default == "":
		return "-"
	}
	return s.Default
}

func (s Setting) bounds() string {
	switch {
	case len(s.Choices) > 0:
		return strings.Join(s.Choices, ", ")
	case s.Min != 0 || s.Max != 0:
		return fmt.Sprintf("%d..%d", s.Min, s.Max)
	case s.Kind == schema.KindBool.String():
		return "true, false"
	}
	return "-"
}
