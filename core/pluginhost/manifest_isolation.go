package pluginhost

import (
	"errors"
	"fmt"
	"maps"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// resources are the limits of setrlimit(2) by name. Sizes are in bytes.
var resources = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
	"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

func (r manifestReader) limits(v *yaml.Node) error {
	s := section{}
	for name, resource := range resources {
		s[name] = func(v *yaml.Node) error {
			n, err := amount(v)
			r.m.isolation.Limits = append(r.m.isolation.Limits, host.Limit{Name: name, Resource: resource, Value: n})
			return err
		}
	}
	return r.mapping(v, "limits", s)
}

// amount is a number, or a size with a unit, or unlimited.
func amount(v *yaml.Node) (uint64, error) {
	s, err := scalar(v)
	if err != nil {
		return 0, err
	}
	if s == "unlimited" {
		return unix.RLIM_INFINITY, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil {
		return n, nil
	}
	n, err := humanize.ParseBytes(s)
	if err != nil || n > 1<<62 {
		return 0, fmt.Errorf("%q is neither a number, nor a size as 4GiB, nor unlimited", s)
	}
	return n, nil
}

func (r manifestReader) landlock(v *yaml.Node) error {
	f := &host.Files{}
	r.m.isolation.Files = f
	return r.mapping(v, "landlock", section{
		"required":   func(v *yaml.Node) (err error) { f.Required, err = boolean(v); return err },
		"read_only":  func(v *yaml.Node) (err error) { f.ReadOnly, err = r.paths(v); return err },
		"read_write": func(v *yaml.Node) (err error) { f.ReadWrite, err = r.paths(v); return err },
	})
}

func (r manifestReader) paths(v *yaml.Node) ([]string, error) {
	words, err := sequence(v)
	if err != nil {
		return nil, err
	}
	stores := r.settings
	if len(stores) == 0 {
		stores = []map[string]string{nil}
	}
	var out []string
	for i, s := range words {
		for _, settings := range stores {
			path, err := expand(s, settings)
			if err != nil {
				return nil, r.fail(v.Content[i], "landlock", "%q: %v", s, err)
			}
			if path != "" && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	return out, nil
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// expand puts the plugin's settings in place of ${config.KEY} and makes the path absolute; it is empty if a setting is not set, or is
// empty: the plugin has no such file then. What follows a setting may lead upwards, as in ${config.list}/.. for the
// directory of a file that is replaced by renaming.
func expand(s string, settings map[string]string) (string, error) {
	if !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "${") {
		return "", errors.New("not an absolute path")
	}
	unset := false
	var wrong error
	path := reference.ReplaceAllStringFunc(s, func(ref string) string {
		name := reference.FindStringSubmatch(ref)[1]
		key, ok := strings.CutPrefix(name, "config.")
		if !ok || key == "" {
			wrong = fmt.Errorf("%s: only ${config.KEY} is known, the plugin's setting KEY", ref)
		}
		value := settings[key]
		unset = unset || value == ""
		return value
	})
	if wrong != nil || unset {
		return "", wrong
	}
	return filepath.Abs(path)
}

func (r manifestReader) seccomp(v *yaml.Node) error {
	var profile string
	var deny []string
	err := r.mapping(v, "seccomp", section{
		"profile": func(v *yaml.Node) (err error) {
			if profile, err = scalar(v); err == nil && profile != "plugin" {
				err = fmt.Errorf("%q is no profile; there is plugin", profile)
			}
			return err
		},
		"deny": func(v *yaml.Node) (err error) {
			if deny, err = sequence(v); err != nil {
				return err
			}
			if i := slices.IndexFunc(deny, func(s string) bool { return !host.KnownCall(s) }); i >= 0 {
				return r.fail(v.Content[i], "seccomp.deny", "this machine has no system call %q", deny[i])
			}
			return nil
		},
	})
	if profile != "" {
		deny = append(host.PluginProfile(), deny...)
	}
	r.m.isolation.Deny = deny
	return err
}

// finish checks what depends on several keys.
func (r manifestReader) finish() error {
	i := &r.m.isolation
	if i.NewPrivs && (i.Files != nil || len(i.Deny) > 0) {
		return fmt.Errorf("pluginhost: %s: landlock and seccomp do not work with no_new_privs: false: %w", r.m.path, ErrManifest)
	}
	u, err := r.m.runAs()
	if err != nil {
		return err
	}
	i.User = u
	return nil
}

func (m *manifest) runAs() (*host.User, error) {
	bad := func(t text, key string, err error) error {
		return fmt.Errorf("pluginhost: %s:%d: %s: %w: %w", m.path, t.line, key, err, ErrManifest)
	}
	if m.user.s == "" {
		if m.group.s != "" {
			return nil, bad(m.group, "group", errors.New("user is missing"))
		}
		return nil, nil
	}
	u := &host.User{}
	known, err := user.Lookup(m.user.s)
	if n, numErr := strconv.ParseUint(m.user.s, 10, 32); err != nil && numErr == nil {
		u.UID = uint32(n)
		known, err = user.LookupId(m.user.s)
		if err != nil && m.group.s != "" {
			known, err = nil, nil // a number of nobody, with a group, is enough
		}
	}
	if err != nil {
		return nil, bad(m.user, "user", err)
	}
	if known != nil {
		if err := takeUser(u, known); err != nil {
			return nil, bad(m.user, "user", err)
		}
	}
	if m.group.s != "" {
		if u.GID, err = groupID(m.group.s); err != nil {
			return nil, bad(m.group, "group", err)
		}
	}
	return u, nil
}

// takeUser takes a user's numbers and groups.
func takeUser(u *host.User, known *user.User) error {
	ids, err := known.GroupIds()
	if err != nil {
		return err
	}
	groups := map[uint32]bool{}
	for _, s := range append([]string{known.Gid}, ids...) {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return err
		}
		groups[uint32(n)] = true
	}
	uid, err := strconv.ParseUint(known.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(known.Gid, 10, 32)
	u.UID, u.GID, u.Groups = uint32(uid), uint32(gid), slices.Sorted(maps.Keys(groups))
	return err
}

func groupID(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(n), err
}
