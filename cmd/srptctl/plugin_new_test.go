package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is the tree of this test.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNewPluginsPassTheirKits builds, tests and checks what is written for each kind, outside the tree.
func TestNewPluginsPassTheirKits(t *testing.T) {
	for _, kind := range []string{"backstore", "auth", "ioctx"} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			out, err := ctl(t, "plugin", "new", kind, "my-"+kind, "--dir", dir, "--module", "example.org/some/where", "--sdk", checkout(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"go.mod", "main.go", "Makefile", "README.md", ".gitignore", "my-" + kind + ".manifest.yaml"} {
				if !strings.Contains(out, filepath.Join(dir, f)+"\n") {
					t.Errorf("no word of %s in\n%s", f, out)
				}
			}
			targets := []string{"test"}
			if !testing.Short() {
				targets = append(targets, "check")
			}
			c := exec.Command("make", targets...)
			c.Dir = dir
			text, err := c.CombinedOutput()
			if err != nil || (!testing.Short() && !strings.Contains(string(text), ", 0 failed")) {
				t.Errorf("%v\n%s", err, text)
			}
			if text, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(text) > 0 {
				t.Errorf("gofmt: %v %s", err, text)
			}
		})
	}
}

func TestNewPluginOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "store.go")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ctl(t, "plugin", "new", "backstore", "disk", "--dir", dir, "--sdk", checkout(t))
	if err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Error(err)
	}
	there, err := os.ReadDir(dir)
	if text, rerr := os.ReadFile(mine); rerr != nil || string(text) != "mine" || err != nil || len(there) != 1 {
		t.Errorf("%q, %v, %v, %v", text, rerr, there, err)
	}
}

func TestNewPluginOfARelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	if _, err := ctl(t, "plugin", "new", "auth", "disk", "--dir", dir, "--sdk", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.Contains(string(mod), "github.com/gosrpt/gosrpt v1.2.3") || strings.Contains(string(mod), "replace") {
		t.Errorf("%v\n%s", err, mod)
	}
}

func TestWrongUseOfNewPluginIsUsage(t *testing.T) {
	sdk := "--sdk=" + checkout(t)
	for _, args := range [][]string{
		{"plugin", "new"},
		{"plugin", "new", "backstore"},
		{"plugin", "new", "disk", "x", sdk},
		{"plugin", "new", "backstore", "../x", sdk},
		{"plugin", "new", "backstore", "X", sdk},
		{"plugin", "new", "backstore", "x", "--module", "a b", sdk},
		{"plugin", "new", "backstore", "x"}, // this srptctl is no release
		{"plugin", "new", "backstore", "x", "--sdk", "/no/such"},
		{"plugin", "new", "backstore", "x", "--sdk", "v1"[:1]},
		{"plugin", "describe"},
		{"plugin", "describe", "a", "b"},
		{"plugin", "-o", "xml", "describe", "a"},
	} {
		if got := run(args); got != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, got, exitUsage)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("something was written")
	}
}
