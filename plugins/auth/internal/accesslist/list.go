package accesslist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

// list is an access list that is in order.
type list struct {
	Hosts []host `yaml:"hosts"`
	sum   string // the beginning of the file's SHA-256
}

// host is one entry.
type host struct {
	Name       string `yaml:"name"`
	Initiators []rule `yaml:"initiators"`
	LUNs       luns   `yaml:"luns"`
	ReadOnly   bool   `yaml:"read_only,omitempty"`
	Channels   int    `yaml:"channels,omitempty"`
	QueueDepth int    `yaml:"queue_depth,omitempty"`
}

// luns is all of them, or a list.
type luns struct {
	all  bool
	list []lun
}

type lun struct {
	LUN      *uint16 `yaml:"lun"`
	Name     string  `yaml:"name"`
	ReadOnly bool    `yaml:"read_only,omitempty"`
}

// UnmarshalYAML reads the word all, or a list.
func (l *luns) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Value != "all" {
			return fmt.Errorf("line %d: luns is neither a list nor the word all", n.Line)
		}
		l.all = true
		return nil
	}
	// Decode would forget that unknown keys are errors.
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	if err := strictly(text, &l.list); err != nil {
		return fmt.Errorf("the luns of line %d: %w", n.Line, err)
	}
	return nil
}

// MarshalYAML writes what UnmarshalYAML reads.
func (l luns) MarshalYAML() (any, error) {
	if l.all {
		return "all", nil
	}
	return l.list, nil
}

// strictly decodes one document without unknown keys. An empty one is an empty value.
func strictly(text []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more than one document")
	}
	return nil
}

// parse reads a list. The error names everything that is wrong with its hosts.
func parse(text []byte) (*list, error) {
	l := &list{}
	if err := strictly(text, l); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	l.sum = hex.EncodeToString(sum[:6])
	return l, l.check()
}

func (l *list) check() error {
	if l.Hosts == nil {
		return errors.New("there is no list of hosts; to admit nobody, write hosts: []")
	}
	var errs []error
	names, rules := map[string]bool{}, map[string]string{}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		if h.Name == "" {
			errs = append(errs, fmt.Errorf("host %d has no name", i+1))
			continue
		}
		if names[h.Name] {
			errs = append(errs, fmt.Errorf("host %q is listed twice", h.Name))
		}
		names[h.Name] = true
		for _, r := range h.Initiators {
			if other, ok := rules[r.String()]; ok {
				errs = append(errs, fmt.Errorf("%v is listed for host %q and again for host %q", r, other, h.Name))
			}
			rules[r.String()] = h.Name
		}
		if err := h.check(); err != nil {
			errs = append(errs, fmt.Errorf("host %q: %w", h.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (h *host) check() error {
	if len(h.Name) > auth.MaxName {
		return fmt.Errorf("its name has %d bytes; at most %d can be", len(h.Name), auth.MaxName)
	}
	if len(h.Initiators) == 0 {
		return errors.New("it has no initiators, so nobody can be it")
	}
	for _, u := range h.LUNs.list {
		if u.LUN == nil {
			return fmt.Errorf("the logical unit %q has no lun", u.Name)
		}
	}
	d := h.decision()
	return d.Validate()
}

// decision is what the host is permitted. Each call makes its own.
func (h *host) decision() auth.Decision {
	d := auth.Decision{Allow: true, Reason: "host " + h.Name, AllLUNs: h.LUNs.all, ReadOnly: h.ReadOnly,
		Quota: auth.Quota{Channels: h.Channels, QueueDepth: h.QueueDepth}}
	for _, u := range h.LUNs.list {
		d.LUNs = append(d.LUNs, auth.LUN{LUN: *u.LUN, Name: u.Name, ReadOnly: u.ReadOnly})
	}
	return d
}

// decide finds the first host that the login belongs to.
func (l *list) decide(login *auth.Login) auth.Decision {
	for i := range l.Hosts {
		for _, r := range l.Hosts[i].Initiators {
			if r.matches(login) {
				d := l.Hosts[i].decision()
				d.Reason += " by " + r.String()
				return d
			}
		}
	}
	return auth.Decision{Reason: "no rule of the access list names it; one of these would: " + strings.Join(login.Names(), ", ")}
}

// String tells the operator which list it is.
func (l *list) String() string { return fmt.Sprintf("%d hosts, sha256 %s...", len(l.Hosts), l.sum) }
