package plugintest

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/auth/authtest"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/ioctx/ioctxtest"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

const (
	// startTime bounds the start of a process, and what is asked of it once.
	startTime = 30 * time.Second
	// endTime is how long a process has to end, by the protocol.
	endTime = 10 * time.Second
	// placeholder stands for a check's own directory.
	placeholder = "{tmp}"
)

// kit is the checks of one executable.
type kit struct {
	o     Options
	about host.About

	mu sync.Mutex
	// killers end the processes of the check that runs.
	killers []func()
	// shared are the processes that the contract's kits use, one after the other.
	shared []*shared
	// tmp is the directory of the check that runs.
	tmp string
}

// check is a promise of an executable.
type check struct {
	name string
	run  func(*run)
}

// run is one check in progress.
type run struct {
	testing.TB
	*kit
	ctx context.Context
}

// checks lists what is to be checked.
func (k *kit) checks() []conformance.Check {
	all := k.asCheck("process: ", anyKind)
	switch k.about.Kind {
	case host.KindBackstore:
		if k.ring() {
			all = append(all, k.contract("ring: ", false)...)
		}
		all = append(all, k.contract("grpc: ", true)...)
		all = append(all, k.asCheck("process: ", ofStores)...)
		all = append(all, k.asCheck("ring: ", ofRings)...)
	case host.KindAuth:
		all = append(all, prefixed("contract: ", authtest.Checks(k.authSubject()))...)
		all = append(all, k.asCheck("process: ", ofControl)...)
	case host.KindIOCtx:
		all = append(all, prefixed("contract: ", ioctxtest.Checks(k.ioctxSubject()))...)
		all = append(all, k.asCheck("process: ", ofControl)...)
	}
	return k.matching(all)
}

// ring tells whether data may go over rings.
func (k *kit) ring() bool { return k.about.Ring && !k.o.Slow }

func (k *kit) asCheck(prefix string, checks []check) (out []conformance.Check) {
	for _, c := range checks {
		out = append(out, conformance.Check{Name: prefix + c.name, Run: func(t testing.TB) {
			c.run(&run{TB: t, kit: k, ctx: t.Context()})
		}})
	}
	return out
}

// contract is the kit of sdk/backstore over the wire. An executable has no engines.
func (k *kit) contract(prefix string, slow bool) (out []conformance.Check) {
	s := &shared{kit: k, slow: slow}
	k.shared = append(k.shared, s)
	subject := backstoretest.Subject{Backstore: s, Config: k.config, Volatile: k.o.Volatile, Grow: k.change()}
	if k.about.Described {
		subject.Backstore = describedShared{s}
	}
	if add := k.readOnly(); add != nil {
		subject.ReadOnly = func(config map[string]string) map[string]string {
			c := maps.Clone(config)
			maps.Copy(c, add)
			return c
		}
	}
	for _, c := range prefixed(prefix, backstoretest.Checks(subject)) {
		if !strings.HasSuffix(c.Name, "/engine") {
			out = append(out, c)
		}
	}
	return out
}

func (k *kit) readOnly() map[string]string {
	if k.o.ReadOnly != nil {
		return k.o.ReadOnly
	}
	for _, s := range k.about.Description.Settings {
		if s.Key == "read_only" && s.Kind == schema.KindBool {
			return map[string]string{"read_only": "true"}
		}
	}
	return nil
}

func prefixed(prefix string, checks []conformance.Check) []conformance.Check {
	for i := range checks {
		checks[i].Name = prefix + checks[i].Name
	}
	return checks
}

func (k *kit) matching(all []conformance.Check) (out []conformance.Check) {
	for _, c := range all {
		if k.o.Match == nil || k.o.Match.MatchString(c.Name) {
			out = append(out, c)
		}
	}
	return out
}

// config makes the configuration of a check, in a directory of its own if one is named.
func (k *kit) config(t testing.TB) map[string]string {
	t.Helper()
	k.tmp = ""
	if k.usesTmp() {
		k.tmp = t.TempDir()
		// A plugin that runs as another user gets in too.
		if err := os.Chmod(k.tmp, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	config := k.inDir(k.tmp)
	k.shell(t, k.o.Prepare)
	return config
}

// inDir is the configuration in a directory.
func (k *kit) inDir(dir string) map[string]string {
	config := map[string]string{}
	for key, v := range k.o.Config {
		config[key] = strings.ReplaceAll(v, placeholder, dir)
	}
	return config
}

func (k *kit) usesTmp() bool {
	if strings.Contains(k.o.Prepare+k.o.Change, placeholder) {
		return true
	}
	for _, v := range k.o.Config {
		if strings.Contains(v, placeholder) {
			return true
		}
	}
	return false
}

// shell runs one of the operator's commands, if there is one.
func (k *kit) shell(t testing.TB, command string) {
	t.Helper()
	if command == "" {
		return
	}
	command = strings.ReplaceAll(command, placeholder, k.tmp)
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// change is Change as a Subject takes it; nil without one.
func (k *kit) change() func(testing.TB, map[string]string) {
	if k.o.Change == "" {
		return nil
	}
	return func(t testing.TB, _ map[string]string) { k.shell(t, k.o.Change) }
}

// onAbort registers what ends a process of the check that runs, until it has ended.
func (k *kit) onAbort(t testing.TB, kill func()) {
	k.mu.Lock()
	k.killers = append(k.killers, kill)
	k.mu.Unlock()
	t.Cleanup(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.killers = nil
	})
}

// abort ends every process, so that whoever waits for one goes on.
func (k *kit) abort() {
	k.mu.Lock()
	killers := k.killers
	k.mu.Unlock()
	for _, kill := range killers {
		kill()
	}
	for _, s := range k.shared {
		s.kill()
	}
}

func (k *kit) close() {
	for _, s := range k.shared {
		s.end()
	}
}

// within is the check's context cut short to d.
func (r *run) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, d)
	r.Cleanup(cancel)
	return ctx
}
