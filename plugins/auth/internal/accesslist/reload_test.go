package accesslist

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/auth/authtest"
)

// only admits the one initiator whose last byte is n.
func only(n int) string {
	return fmt.Sprintf("hosts: [{name: h%d, luns: [{lun: %d, name: disk}], initiators: ['port_id:%032x']}]\n", n, n, n)
}

func from(n int) auth.Login { return auth.Login{Initiator: auth.ID{15: byte(n)}} }

// clock gives every state of a file a time of its own, as the minutes between an operator's changes do.
var clock = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Second)
	if err := os.Chtimes(path, clock, clock); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is an authoriser whose looks at the file are the test's.
type fixture struct {
	*authorizer
	path    string
	log     bytes.Buffer
	changes []auth.Change
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{path: filepath.Join(t.TempDir(), "list.yaml")}
	f.open(t)
	return f
}

func (f *fixture) open(t testing.TB) {
	t.Helper()
	write(t, f.path, only(1))
	f.authorizer = newAuthorizer(hclog.New(&hclog.LoggerOptions{Output: &f.log}), f.path)
	must(t, f.load())
	f.Watch(func(c auth.Change) { f.changes = append(f.changes, c) })
	f.looks()
	if len(f.changes) != 0 {
		t.Fatalf("%+v", f.changes)
	}
}

// looks are as many as every change needs, and some.
func (f *fixture) looks() {
	for range 4 {
		f.look()
	}
}

func (f *fixture) allows(t testing.TB, n int) bool {
	t.Helper()
	d, err := f.Decide(t.Context(), from(n))
	must(t, err)
	return d.Allow
}

// styles are the ways in which editors and deployments replace a file.
var styles = map[string]func(t *testing.T, path, text string){
	"in place": func(t *testing.T, path, text string) { write(t, path, text) },
	"rename over": func(t *testing.T, path, text string) {
		write(t, path+".new", text)
		must(t, os.Rename(path+".new", path))
	},
	"backup and rename": func(t *testing.T, path, text string) {
		must(t, os.Rename(path, path+"~"))
		write(t, path+".new", text)
		must(t, os.Rename(path+".new", path))
	},
	"remove and create": func(t *testing.T, path, text string) {
		must(t, os.Remove(path))
		write(t, path, text)
	},
}

func TestEachChangeIsAppliedOnceHoweverTheFileIsReplaced(t *testing.T) {
	for name, replace := range styles {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for n := 2; n < 102; n++ {
				replace(t, f.path, only(n))
				f.looks()
				if !f.allows(t, n) || f.allows(t, n-1) {
					t.Fatalf("list %d is not in force", n)
				}
				if len(f.changes) == 0 || strings.Count(fmt.Sprint(f.changes), "another access list") != 1 {
					t.Fatalf("list %d: %+v", n, f.changes)
				}
				f.changes = nil
			}
		})
	}
}

// TestLinkedFileIsFollowed: the file is a link to a link whose target changes, as Kubernetes mounts them.
func TestLinkedFileIsFollowed(t *testing.T) {
	dir := t.TempDir()
	f := &fixture{path: filepath.Join(dir, "1", "list.yaml")}
	must(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	must(t, os.Symlink("1", filepath.Join(dir, "..data")))
	must(t, os.Symlink(filepath.Join("..data", "list.yaml"), filepath.Join(dir, "list.yaml")))
	f.open(t)
	f.follow.path = filepath.Join(dir, "list.yaml")
	for n := 2; n < 102; n++ {
		now := filepath.Join(dir, fmt.Sprint(n))
		must(t, os.Mkdir(now, 0o700))
		write(t, filepath.Join(now, "list.yaml"), only(n))
		must(t, os.Symlink(fmt.Sprint(n), filepath.Join(dir, "..tmp")))
		must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint(n-1))))
		f.looks()
		if !f.allows(t, n) || f.allows(t, n-1) || strings.Count(fmt.Sprint(f.changes), "another access list") != n-1 {
			t.Fatalf("list %d: %+v", n, f.changes)
		}
	}
}

func TestFileInMotionIsNotRead(t *testing.T) {
	f := newFixture(t)
	for n := range 5 {
		write(t, f.path, "hosts: []"+strings.Repeat(" ", n)) // half of what is being written
		f.look()
	}
	if !f.allows(t, 1) || len(f.changes) != 0 {
		t.Errorf("half a list is in force: %+v", f.changes)
	}
	write(t, f.path, only(2))
	f.looks()
	if !f.allows(t, 2) || f.allows(t, 1) {
		t.Error("the whole list is not in force")
	}
}

func TestListThatCannotBeUsedChangesNothing(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, string){
		"removed":     func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"empty":       func(t *testing.T, path string) { write(t, path, "") },
		"a mistake":   func(t *testing.T, path string) { write(t, path, "hosts: [{name: x}]") },
		"a directory": func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) },
		"huge":        func(t *testing.T, path string) { must(t, os.Truncate(path, maxFile+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.allows(t, 1)
			spoil(t, f.path)
			f.looks()
			f.looks()
			if !f.allows(t, 1) || len(f.changes) != 0 {
				t.Errorf("the list in force is gone: %+v", f.changes)
			}
			if n := strings.Count(f.log.String(), "stays in force"); n != 1 {
				t.Errorf("the operator is told %d times:\n%s", n, f.log.String())
			}
			must(t, os.RemoveAll(f.path))
			write(t, f.path, only(2))
			f.looks()
			if !f.allows(t, 2) || f.allows(t, 1) {
				t.Error("it does not recover")
			}
		})
	}
}

func TestSameListAgainIsNoChange(t *testing.T) {
	f := newFixture(t)
	write(t, f.path+".new", only(1))
	must(t, os.Rename(f.path+".new", f.path))
	f.looks()
	f.reload()
	if len(f.changes) != 0 {
		t.Errorf("%+v", f.changes)
	}
}

func TestWhoIsNotOnTheListAnyMoreIsRevoked(t *testing.T) {
	f := newFixture(t)
	write(t, f.path, "hosts: [{name: all, luns: all, initiators: ['address:0.0.0.0/0', 'address:::/0', 'gid:::9']}]")
	f.looks()
	f.changes = nil
	here, there, stays, byGID := stranger, stranger, login, stranger
	there.SourceAddr = login.SourceAddr
	byGID.Initiator, byGID.SourceGID = auth.ID{15: 77}, auth.ID{15: 9}
	out := stranger
	out.Initiator = auth.ID{15: 99}
	for _, l := range []auth.Login{here, there, stays, byGID, out, out} {
		if d, err := f.Decide(t.Context(), l); err != nil || !d.Allow {
			t.Fatal(d, err)
		}
	}
	// One of the stranger's two addresses goes: its sessions are asked about, not revoked.
	write(t, f.path, "hosts: [{name: some, luns: [], initiators: ['address:fe80::/10', 'gid:::9']}]")
	f.looks()
	if len(f.changes) != 2 || !f.changes[0].Revoke || len(f.changes[0].Initiators) != 1 || f.changes[0].Initiators[0] != out.Initiator ||
		f.changes[1].Revoke || len(f.changes[1].Initiators) != 0 {
		t.Fatalf("%+v", f.changes)
	}
	// The revoked one is forgotten: it is not told of again.
	f.changes = nil
	write(t, f.path, "hosts: []")
	f.looks()
	if len(f.changes) != 2 || len(f.changes[0].Initiators) != 3 {
		t.Fatalf("%+v", f.changes)
	}
	for _, c := range f.changes {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestRememberedLoginsAreBounded(t *testing.T) {
	k := newKnown()
	for n := range 3 * maxKnown {
		k.add(auth.Login{Initiator: auth.ID{0: byte(n >> 8), 1: byte(n)}})
		k.add(auth.Login{Initiator: auth.ID{0: byte(n >> 8), 1: byte(n)}})
	}
	if len(k.order) != maxKnown || len(k.logins) != maxKnown {
		t.Errorf("%d in order, %d in the map", len(k.order), len(k.logins))
	}
	gone := k.refused(listOf(t, "hosts: []"))
	if len(gone) != maxKnown || len(k.order) != 0 || len(k.logins) != 0 {
		t.Errorf("%d gone, %d in order, %d in the map", len(gone), len(k.order), len(k.logins))
	}
}

func TestHangupReloads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.yaml")
	write(t, path, only(1))
	a, err := Opener{Log: hclog.NewNullLogger(), every: time.Hour}.Open(t.Context(), map[string]string{"list": path})
	must(t, err)
	defer a.Close()
	changes := make(chan auth.Change, 8)
	a.(auth.Watcher).Watch(func(c auth.Change) { changes <- c })
	for n := 2; n < 6; n++ {
		write(t, path, only(n))
		must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		<-changes
		if d, err := a.Decide(t.Context(), from(n)); err != nil || !d.Allow {
			t.Errorf("%d: %+v, %v", n, d, err)
		}
		for len(changes) > 0 {
			<-changes
		}
	}
}

func TestListThatCannotBeUsedIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.yaml")
	write(t, path, "hosts: [{name: x}]")
	for want, config := range map[string]map[string]string{
		"list: must be":  {},
		"list: is":       {"list": ""},
		"colour":         {"list": path, "colour": "red"},
		path:             {"list": path},
		path + ".absent": {"list": path + ".absent"},
	} {
		a, err := Opener{Log: hclog.NewNullLogger()}.Open(t.Context(), config)
		if err == nil || auth.CodeOf(err) != auth.CodeConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v", config, a, err)
		}
	}
}

func TestKit(t *testing.T) {
	authtest.Test(t, authtest.Subject{
		Opener: Opener{Log: hclog.NewNullLogger(), every: 5 * time.Millisecond},
		Config: func(t testing.TB) map[string]string {
			path := filepath.Join(t.TempDir(), "list.yaml")
			write(t, path, "hosts: [{name: h, initiators: ['gid:fe80::2:c903:aa:bbcc'], "+luns01+", channels: 4, queue_depth: 16}]")
			return map[string]string{"list": path}
		},
		Allowed: login,
		Denied:  &stranger,
		Revoke:  func(t testing.TB, config map[string]string) { write(t, config["list"], "hosts: []") },
	})
}

func TestDecisionsAndReloadsAtOnce(t *testing.T) {
	f := newFixture(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if d, err := f.Decide(t.Context(), from(n%4)); err != nil || d.Validate() != nil {
					t.Errorf("%+v, %v", d, err)
					return
				}
				f.Notice()
			}
		})
	}
	for n := range 50 {
		write(t, f.path, only(n%4))
		f.looks()
	}
	close(stop)
	wg.Wait()
}
