package pluginhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// manifestSuffix makes the name of a plugin's manifest of the name of its executable, in the same directory.
const manifestSuffix = ".manifest.yaml"

// ErrManifest says that a manifest cannot be used, or forbids the start.
var ErrManifest = errors.New("invalid manifest")

// manifest is what the author of a plugin says about it, and how its process is kept apart.
type manifest struct {
	path        string
	kind        string
	description string
	user, group text
	isolation   host.Isolation
}

// text is a value and its line.
type text struct {
	s    string
	line int
}

// manifestReader reads a manifest into m. settings are what ${config.KEY} stands for, one for each
// store.
type manifestReader struct {
	m        *manifest
	settings []map[string]string
}

// section is what may stand in a mapping, and who reads it.
type section map[string]func(v *yaml.Node) error

// parseManifest reads a manifest. Errors tell path, line and key.
func parseManifest(path string, doc []byte, settings []map[string]string) (*manifest, error) {
	m := &manifest{path: path}
	r := manifestReader{m, settings}
	d := yaml.NewDecoder(bytes.NewReader(doc))
	var root yaml.Node
	err := d.Decode(&root)
	if err == nil {
		var more yaml.Node
		if !errors.Is(d.Decode(&more), io.EOF) {
			return nil, r.fail(&more, "", "a second document")
		}
		err = r.mapping(root.Content[0], "", r.top())
	} else if errors.Is(err, io.EOF) {
		err = nil // an empty manifest
	} else {
		err = fmt.Errorf("pluginhost: %s: %s: %w", path, strings.TrimPrefix(err.Error(), "yaml: "), ErrManifest)
	}
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// fail says where it is wrong, and what.
func (r manifestReader) fail(at *yaml.Node, key, format string, a ...any) error {
	if key != "" {
		key += ": "
	}
	return fmt.Errorf("pluginhost: %s:%d: %s%s: %w", r.m.path, at.Line, key, fmt.Sprintf(format, a...), ErrManifest)
}

// mapping reads a mapping whose keys are those of s. under is its own key.
func (r manifestReader) mapping(n *yaml.Node, under string, s section) error {
	if n.Kind != yaml.MappingNode {
		return r.fail(n, under, "keys and values are wanted here")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := strings.TrimPrefix(under+"."+key.Value, ".")
		read, ok := s[key.Value]
		switch {
		case !ok:
			return r.fail(key, full, "no such key; there are %s", strings.Join(sortedKeys(s), ", "))
		case seen[key.Value]:
			return r.fail(key, full, "a second time")
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			if errors.Is(err, ErrManifest) {
				return err
			}
			return r.fail(value, full, "%v", err)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r manifestReader) top() section {
	return section{
		"kind": func(v *yaml.Node) (err error) {
			if r.m.kind, err = scalar(v); err == nil && !slices.Contains(kinds, r.m.kind) {
				err = fmt.Errorf("%q is none of %s", r.m.kind, strings.Join(kinds, ", "))
			}
			return err
		},
		"description":   func(v *yaml.Node) (err error) { r.m.description, err = scalar(v); return err },
		"protocol":      protocol,
		"user":          func(v *yaml.Node) (err error) { r.m.user.line = v.Line; r.m.user.s, err = scalar(v); return err },
		"group":         func(v *yaml.Node) (err error) { r.m.group.line = v.Line; r.m.group.s, err = scalar(v); return err },
		"no_new_privs":  func(v *yaml.Node) error { b, err := boolean(v); r.m.isolation.NewPrivs = !b; return err },
		"pid_namespace": func(v *yaml.Node) (err error) { r.m.isolation.PIDNamespace, err = boolean(v); return err },
		"limits":        r.limits,
		"landlock":      r.landlock,
		"seccomp":       r.seccomp,
	}
}

// The kinds of plugins.
const (
	kindBackstore = "backstore"
	kindAuth      = "auth"
	kindIOCtx     = "ioctx"
)

var kinds = []string{kindBackstore, kindAuth, kindIOCtx}

func scalar(v *yaml.Node) (string, error) {
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return "", errors.New("one value is wanted here")
	}
	return v.Value, nil
}

func boolean(v *yaml.Node) (bool, error) {
	s, err := scalar(v)
	if err != nil {
		return false, err
	}
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q is neither true nor false", s)
	}
	return s == "true", nil
}

// sequence is a list of values.
func sequence(v *yaml.Node) ([]string, error) {
	if v.Kind != yaml.SequenceNode {
		return nil, errors.New("a list is wanted here, as [a, b]")
	}
	var out []string
	for _, n := range v.Content {
		s, err := scalar(n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// protocol compares major versions before there is a process to ask.
func protocol(v *yaml.Node) error {
	words, err := sequence(v)
	if err != nil {
		return err
	}
	var majors []int
	for _, s := range words {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no major version", s)
		}
		majors = append(majors, int(n))
	}
	return host.CheckMajors(majors)
}
