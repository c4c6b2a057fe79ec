package bridge

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

// shortTemp makes TMPDIR a directory of the test's own with a path short enough to be used.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bridge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestDirectoriesOfKilledHostsAreRemovedAndNoOthers(t *testing.T) {
	base := shortTemp(t)
	used, err := newPrivate()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody has these locked.
	left := filepath.Join(base, privatePrefix+"1", "sub")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(base, "gosrpt-other")
	file := filepath.Join(base, privatePrefix+"file")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, privatePrefix+"link")
	if err := os.Symlink(foreign, link); err != nil {
		t.Fatal(err)
	}
	second, err := newPrivate()
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Dir(left)) {
		t.Error("what a killed host left is still there")
	}
	for _, path := range []string{used.path, second.path, foreign, file, link} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	used.remove()
	second.remove()
	if exists(used.path) || exists(second.path) {
		t.Error("remove leaves it")
	}
	private{}.remove()
}

func TestDirectoryThatIsSweptBeforeItsLockIsMadeAgain(t *testing.T) {
	base := shortTemp(t)
	path := filepath.Join(base, privatePrefix+"x")
	if _, err := lockDir(path); !os.IsNotExist(err) {
		t.Errorf("gone: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := lockDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := lockDir(path); !os.IsNotExist(err) {
		t.Errorf("being removed: %v", err)
	}
}

func TestLongTemporaryPathIsNotUsed(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp/a-path-that-is-too-long-for-the-name-of-a-socket-below-it")
	d, err := newPrivate()
	if err != nil {
		t.Fatal(err)
	}
	defer d.remove()
	if filepath.Dir(d.path) != "/tmp" {
		t.Errorf("in %s", d.path)
	}
}

func TestDirectoriesGivenAwayAreRemovedByTheNextHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	base := shortTemp(t)
	d, err := newPrivate()
	if err != nil {
		t.Fatal(err)
	}
	sockets := filepath.Join(d.path, "sockets")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.give(&isolation.User{UID: 4711, GID: 4712}, sockets); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.path, sockets} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := st.Sys().(*syscall.Stat_t); !ok || s.Uid != 4711 || s.Gid != 4712 || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %+v", path, st.Sys())
		}
	}
	sweep(base)
	if !exists(d.path) {
		t.Error("a directory in use was removed")
	}
	d.lock.Close() // as the host's death does
	sweep(base)
	if exists(d.path) {
		t.Error("it is still there")
	}
}
