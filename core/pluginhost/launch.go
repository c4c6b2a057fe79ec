package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// RunLauncher must be the first that main calls in a program that starts plugins. A plugin whose manifest asks for isolation is
// started through that program itself, and then RunLauncher does not return.
func RunLauncher() { host.RunLauncher() }

// vetted is an executable that may be started.
type vetted struct {
	path   string // with symbolic links followed
	launch host.Launch
}

// close closes the executable. The start is over.
func (v vetted) close() {
	if v.launch.File != nil {
		v.launch.File.Close()
	}
}

// vet holds an executable against the catalogue and the manifest beside it: beside path, or where it has none, beside the file that
// path links to. kind is what the caller starts, settings are what the manifest may refer to.
func vet(kind, path string, settings []map[string]string, log hclog.Logger) (v vetted, err error) {
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if path, err = filepath.Abs(path); err == nil {
		v.path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return v, fmt.Errorf("pluginhost: %w", err)
	}
	places := []string{path, v.path}
	c, name, err := catalogueOf(places)
	if err != nil {
		return v, err
	}
	if c != nil {
		if err := v.verify(c, name, path); err != nil {
			return v, err
		}
	}
	m, err := manifestOf(places, c, settings)
	if err != nil || m == nil {
		return v, err
	}
	if m.kind != "" && m.kind != kind {
		return v, fmt.Errorf("pluginhost: %s is a plugin of the kind %s (says %s), and is wanted as %s: correct the configuration: %w",
			path, m.kind, m.path, kind, ErrManifest)
	}
	v.launch.Isolation = m.isolation
	log.Info("starting a plugin by its manifest", "path", path, "manifest", m.path, "description", m.description,
		"isolation", isolated(m.isolation))
	return v, nil
}

// catalogueOf is the first catalogue beside one of the places, and the name to look for in it.
func catalogueOf(places []string) (*catalogue, string, error) {
	for _, p := range places {
		if c, err := readCatalogue(filepath.Dir(p)); c != nil || err != nil {
			return c, filepath.Base(p), err
		}
	}
	return nil, "", nil
}

// verify opens the executable, once, and holds its content against the catalogue. That descriptor is what will be executed.
func (v *vetted) verify(c *catalogue, name, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // not for ever if it has become a pipe
	if err != nil {
		return fmt.Errorf("pluginhost: to be verified the executable must be readable: %w", err)
	}
	v.launch.File = f
	s, id, err := sumOf(f)
	if err != nil {
		return err
	}
	v.launch.Unchanged = func() error { return unchanged(f, id) }
	return c.check(name, s)
}

// manifestOf is the first manifest beside one of the places. If the catalogue lists it, it must be as listed.
func manifestOf(places []string, c *catalogue, settings []map[string]string) (*manifest, error) {
	for _, p := range places {
		file := p + manifestSuffix
		doc, err := readText(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pluginhost: %w", err)
		}
		if err := c.checkText(file, doc); err != nil {
			return nil, err
		}
		return parseManifest(file, doc, settings)
	}
	return nil, nil
}

// isolated says in a few words how a process is kept apart.
func isolated(s host.Isolation) string {
	var w []string
	if s.User != nil {
		w = append(w, fmt.Sprintf("user %d:%d", s.User.UID, s.User.GID))
	}
	if !s.NewPrivs {
		w = append(w, "no_new_privs")
	}
	if s.PIDNamespace {
		w = append(w, "pid_namespace")
	}
	for _, l := range s.Limits {
		w = append(w, fmt.Sprintf("%s=%d", l.Name, l.Value))
	}
	if s.Files != nil {
		w = append(w, fmt.Sprintf("landlock (%d read-only, %d read-write)", len(s.Files.ReadOnly), len(s.Files.ReadWrite)))
	}
	if len(s.Deny) > 0 {
		w = append(w, fmt.Sprintf("seccomp (%d calls)", len(s.Deny)))
	}
	return strings.Join(w, ", ")
}
