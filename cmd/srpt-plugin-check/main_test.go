package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds packages of the tree into one directory.
func build(t *testing.T, packages ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", dir}
	for _, p := range packages {
		args = append(args, "github.com/gosrpt/gosrpt/"+p)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func tool(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

func TestExitCodesTellWhatHappened(t *testing.T) {
	dir := build(t, "sdk/internal/testbare", "plugins/ioctx")
	bare, ioctx := filepath.Join(dir, "testbare"), filepath.Join(dir, "ioctx")
	noise := []string{"--run", "stdout carries", bare}
	for name, c := range map[string]struct {
		args []string
		want int
		text string // of stdout or stderr
	}{
		"all passed":       {noise, 0, "1 run, 1 passed, 0 skipped, 0 failed"},
		"a check failed":   {append(noise, "--", "noisy"), exitFailed, "1 run, 0 passed, 0 skipped, 1 failed"},
		"nothing named":    {nil, exitUsage, "name the plugin"},
		"no such flag":     {[]string{"--nonsense", bare}, exitUsage, "nonsense"},
		"no such file":     {[]string{"/no/such"}, exitUsage, "/no/such"},
		"not executable":   {[]string{"main.go"}, exitUsage, "not an executable"},
		"bad setting":      {[]string{"--config", "path", bare}, exitUsage, "KEY=VALUE"},
		"bad login":        {[]string{"--allowed", "me", bare}, exitUsage, "--allowed"},
		"bad output":       {[]string{"-o", "xml", bare}, exitUsage, "text or json"},
		"bad pattern":      {[]string{"--run", "(", bare}, exitUsage, "--run"},
		"no check matches": {[]string{"--run", "nothing at all", bare}, exitUsage, "--list"},
		"no plugin":        {[]string{"/bin/true"}, exitNotBegun, "cannot be started"},
		"list":             {[]string{"--list", bare}, 0, "process: SIGTERM"},
		"no data":          {[]string{"--bench", ioctx}, exitFailed, "no data"},
	} {
		code, out, errs := tool(c.args...)
		if code != c.want || !strings.Contains(out+errs, c.text) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, c.want, out, errs)
		}
	}
}

func TestReportIsOneDocument(t *testing.T) {
	bare := filepath.Join(build(t, "sdk/internal/testbare"), "testbare")
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, []byte("path: '{tmp}/disk'\nsize: 1MiB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := tool("-o", "json", "--config-file", settings, "-c", "size=2MiB", "--run", "settings|geometry|FUA", bare)
	var d document
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 {
		t.Fatalf("%d, %v\n%s%s", code, err, out, errs)
	}
	if d.Summary.Run != len(d.Checks) || d.Summary.Passed == 0 || d.Summary.Skipped == 0 || d.About.Kind != "backstore" ||
		d.About.Protocol != 1 || !d.About.Ring || !d.About.Described || d.About.Settings[0].Key != "path" {
		t.Errorf("%+v", d)
	}
	for _, c := range d.Checks {
		if c.Name == "" || c.Seconds < 0 || (c.Status == "skipped" && len(c.Reason) == 0) {
			t.Errorf("%+v", c)
		}
	}
}

func TestBenchPrintsEveryJob(t *testing.T) {
	file := filepath.Join(build(t, "plugins/backstore-file"), "backstore-file")
	code, out, errs := tool("--bench", "--duration", "10ms", "-c", "path={tmp}/disk", "-c", "size=4MiB", file)
	if code != 0 || strings.Count(out, "\n") != 9 || !strings.Contains(out, "random read") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	code, out, errs = tool("--bench", "--duration", "10ms", "-o", "json", "--slow", "-c", "path={tmp}/disk", "-c", "size=4MiB", file)
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"p99_us"`) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}
