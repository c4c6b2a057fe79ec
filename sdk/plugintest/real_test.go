package plugintest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

// built is the directory of the plugins under test.
var built string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gosrpt-plugintest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	const module = "github.com/gosrpt/gosrpt/"
	build := exec.Command("go", "build", "-o", dir, module+"plugins/backstore-file", module+"plugins/auth", module+"plugins/ioctx",
		module+"sdk/internal/testplugin", module+"sdk/internal/testbare", module+"sdk/internal/testcontrol")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the plugins: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func logger() hclog.Logger {
	if !testing.Verbose() {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
}

// check runs all checks of an executable.
func check(t *testing.T, o plugintest.Options) map[string]conformance.Result {
	t.Helper()
	o.Log = logger()
	r, err := plugintest.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %v", conformance.CountOf(r.Results), r.Took)
	out := map[string]conformance.Result{}
	for _, c := range r.Results {
		out[c.Name] = c
		if testing.Verbose() {
			t.Logf("%-8s %6.2f %s %s", c.Status, c.Seconds, c.Name, strings.Join(c.Reason, "; "))
		}
	}
	return out
}

// passes fails the test for each check that did not pass, but for those that may be skipped.
func passes(t *testing.T, got map[string]conformance.Result, mayskip ...string) {
	t.Helper()
	if len(got) < 10 {
		t.Errorf("only %d checks", len(got))
	}
	for name, c := range got {
		skippable := false
		for _, s := range append(mayskip, undeclaredReasons...) {
			skippable = skippable || strings.Contains(name+": "+strings.Join(c.Reason, " "), s)
		}
		if c.Status == conformance.Failed || (c.Status == conformance.Skipped && !skippable) {
			t.Errorf("%s: %s: %s", c.Status, name, strings.Join(c.Reason, "; "))
		}
	}
}

// undeclared are the checks of what a plugin declares about its settings.
const undeclared = "setting"

// undeclaredReasons are why what a plugin has never declared is not asked for.
var undeclaredReasons = []string{"does not have the power", "no power that", "does not describe itself", "cannot make a store grow"}

type optionsOf = plugintest.Options

// filePlugin, authPlugin and ioctxPlugin are how the plugins of a directory are checked.

func filePlugin(dir string) optionsOf {
	return optionsOf{
		Path:     filepath.Join(dir, "backstore-file"),
		Config:   map[string]string{"path": "{tmp}/disk", "size": "4MiB"},
		ReadOnly: map[string]string{"read_only": "true"},
	}
}

func authPlugin(dir string) optionsOf {
	const list = "hosts:\n- {name: web, initiators: ['port_id:0x11000000000000000000000000000001'], luns: all}\n"
	return optionsOf{
		Path:    filepath.Join(dir, "auth"),
		Config:  map[string]string{"list": "{tmp}/list.yaml"},
		Prepare: "cat > {tmp}/list.yaml <<END\n" + list + "END\n",
		Change:  "echo 'hosts: []' > {tmp}/new && mv {tmp}/new {tmp}/list.yaml",
		Allowed: auth.Login{Initiator: auth.ID{0x11, 15: 1}},
		Denied:  &auth.Login{Initiator: auth.ID{0x22}},
	}
}

func ioctxPlugin(dir string) optionsOf {
	return optionsOf{Path: filepath.Join(dir, "ioctx"), Config: map[string]string{"credits": "32"}}
}

func TestFilePluginPasses(t *testing.T) { passes(t, check(t, filePlugin(built)), undeclared) }

func TestAuthPluginPasses(t *testing.T) { passes(t, check(t, authPlugin(built)), undeclared) }

func TestIOCtxPluginPasses(t *testing.T) {
	passes(t, check(t, ioctxPlugin(built)), undeclared, "pressure", "a change is told")
}
