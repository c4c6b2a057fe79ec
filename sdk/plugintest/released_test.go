package plugintest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasedPluginsStillPass builds the plugins of every released source, with the SDK of then, and holds them to the kit of
// today. Released is what a tag v* or sdk/v* names, and what sdk/testdata/released lists.
func TestReleasedPluginsStillPass(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the plugins of every release")
	}
	if out, err := git("rev-parse", "--show-toplevel"); err != nil {
		t.Skipf("released sources are in git, and this is no clone: %v: %s", err, out)
	}
	releases := append(listed(t), tagged(t)...)
	if len(releases) == 0 {
		t.Fatal("nothing is released")
	}
	for _, r := range releases {
		t.Run(r, func(t *testing.T) {
			if out, err := git("cat-file", "-e", r+"^{commit}"); err != nil {
				if shallow, _ := git("rev-parse", "--is-shallow-repository"); shallow == "true" {
					t.Skip("this clone is shallow and has no such commit: git fetch --unshallow")
				}
				t.Fatalf("no such commit: %s", out)
			}
			released(t, r)
		})
	}
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// listed are the commits of testdata/released.
func listed(t *testing.T) (commits []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "released"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			commits = append(commits, f[0])
		}
	}
	return commits
}

func tagged(t *testing.T) []string {
	t.Helper()
	out, err := git("tag", "--list", "v[0-9]*", "sdk/v[0-9]*")
	if err != nil {
		t.Fatal(out)
	}
	return strings.Fields(out)
}

// released builds and checks the plugins of one commit.
func released(t *testing.T, commit string) {
	t.Helper()
	src, bin := t.TempDir(), t.TempDir()
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(top)
	}
	archive := exec.Command("git", "-C", top, "archive", "--format=tar", commit)
	text, err := archive.Output()
	if err != nil {
		t.Fatalf("git archive: %v", err)
	}
	untar := exec.Command("tar", "-x", "-C", src)
	untar.Stdin = bytes.NewReader(text)
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	build := exec.Command("go", "build", "-o", bin, "./plugins/...")
	build.Dir = src
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passes(t, check(t, filePlugin(bin)), undeclared)
	for name, o := range map[string]func(string) optionsOf{"auth": authPlugin, "ioctx": ioctxPlugin} {
		if _, err := os.Stat(filepath.Join(bin, name)); err == nil {
			passes(t, check(t, o(bin)), undeclared, "pressure", "a change is told")
		}
	}
}
