package pluginhost

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, dir, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTakesTheFirstDirectory(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	put(t, b, "file", 0o755)
	prefixed := put(t, a, "gosrpt-file", 0o755)
	if got, err := Find([]string{a, b}, "file"); err != nil || got != prefixed {
		t.Errorf("Find = %q, %v; want %q", got, err, prefixed)
	}
	link := filepath.Join(a, "file")
	target := put(t, b, "file-2", 0o755)
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if got, err := Find([]string{a, b}, "file"); err != nil || got != link {
		t.Errorf("Find = %q, %v; want %q", got, err, link)
	}
	if got, err := Find(nil, link); err != nil || got != link {
		t.Errorf("Find by path = %q, %v; want %q", got, err, link)
	}
}

func TestFindSaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "plain", 0o644)
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"plain": "chmod +x", "directory": "not a file", "absent": "no executable absent", "": "without a name",
	} {
		_, err := Find([]string{dir}, name)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): %v, want ErrNotFound and %q", name, err, want)
		}
	}
	if _, err := Find(nil, filepath.Join(dir, "absent")); err == nil {
		t.Error("a path to nothing was found")
	}
}
