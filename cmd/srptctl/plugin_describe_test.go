package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/cmd/internal/about"
)

func TestDescribeShowsWhatAPluginSays(t *testing.T) {
	dir := t.TempDir()
	const module = "github.com/gosrpt/gosrpt/"
	if out, err := exec.Command("go", "build", "-o", dir, module+"sdk/internal/testbare", module+"plugins/auth").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := ctl(t, "plugin", "describe", "testbare", "--plugin-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"backstore", "bare", "major version 1", "ring", "when it is opened", "path", "(required)", "size", "4MiB", "1048576..1073741824",
		"read_only", "true, false", "refuse writes"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = ctl(t, "-o", "json", "plugin", "describe", filepath.Join(dir, "testbare"))
	var p about.Plugin
	if err != nil || json.Unmarshal([]byte(out), &p) != nil || p.Kind != "backstore" || len(p.Settings) != 3 || p.Settings[2].Max != 1<<30 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := ctl(t, "plugin", "describe", "auth", "--plugin-dir", dir); err != nil || !strings.Contains(out, "auth") || strings.Contains(out, "powers") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := run([]string{"plugin", "describe", "/bin/true"}); got != exitFailed {
		t.Errorf("what is no plugin: exit code %d", got)
	}
	if got := run([]string{"plugin", "describe", "nobody", "--plugin-dir", dir}); got != exitFailed {
		t.Errorf("what is not there: exit code %d", got)
	}
}
