// Package examples_test proves the plugins of this directory, which are in other languages, over the real protocol.
package examples_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/gosrpt/gosrpt/sdk/host"
)

const patience = 2 * time.Minute

// example is a plugin of this directory, as it was built.
type example struct{ name, path string }

// The plugins; cChecked is the one in C with the compiler's checks of memory and undefined behaviour.
var (
	cPlugin      = &example{name: "C"}
	cChecked     = &example{name: "C, checked"}
	pythonPlugin = &example{name: "Python"}
	all          = []*example{cPlugin, cChecked, pythonPlugin}
)

// each runs a test for every plugin.
func each(t *testing.T, run func(*testing.T, *example)) {
	need(t)
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) { run(t, e) })
	}
}

// need skips a test that needs the plugins.
func need(t testing.TB) {
	if testing.Short() {
		t.Skip("-short: the plugins in other languages are not built; they need the packages that .ci/deps installs")
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gosrpt-examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if !testing.Short() {
		err = errors.Join(
			build(cPlugin, "backstore-c", filepath.Join(dir, "c")),
			build(cChecked, "backstore-c", filepath.Join(dir, "checked"), "SANITIZE=address,undefined"),
			build(pythonPlugin, "backstore-python", filepath.Join(dir, "python")))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n.ci/deps installs what the build needs; -short goes without\n", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func build(e *example, source, out string, args ...string) error {
	e.path = filepath.Join(out, source)
	cmd := exec.Command("make", append([]string{"-C", source, "OUT=" + out}, args...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", source, err, text)
	}
	return nil
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func logger(t testing.TB) hclog.Logger {
	level := hclog.Warn // a plugin's plain stderr is no more than info
	if testing.Verbose() {
		level = hclog.Debug
	}
	return hclog.New(&hclog.LoggerOptions{Name: t.Name(), Level: level, Output: os.Stderr})
}

// config is that of a new store of 4 MiB.
func config(t testing.TB) map[string]string {
	return map[string]string{"path": filepath.Join(t.TempDir(), "store"), "size": "4MiB"}
}

func newArena(t testing.TB, size int) *host.Arena {
	t.Helper()
	a, err := host.NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func start(t testing.TB, path string, a *host.Arena, args ...string) *host.Process {
	t.Helper()
	p, err := host.Start(soon(t), host.Options{Path: path, Args: args, Arena: a, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		p.Close(ctx)
	})
	return p
}

func open(t testing.TB, p *host.Process, config map[string]string) *host.Store {
	t.Helper()
	s, err := p.Open(soon(t), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func await(t testing.TB, c <-chan struct{}, bound time.Duration, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(bound):
		t.Fatalf("%s did not happen in %v", what, bound)
	}
}
