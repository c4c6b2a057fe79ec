package pluginhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/host"
)

func TestManifestSaysHowAProcessIsKeptApart(t *testing.T) {
	m, err := parseManifest("/p/x.manifest.yaml", []byte(`
kind: backstore
description: keeps blocks in a file
protocol: [1, 2]
user: "4711"
group: "4712"
pid_namespace: true
limits: {nofile: 1024, as: 4GiB, core: 0, memlock: unlimited}
landlock:
  required: true
  read_only: [/etc/ssl, "${config.list}/..", "${config.absent}"]
  read_write: ["${config.path}", "/var/lib/${config.name}/data"]
seccomp:
  profile: plugin
  deny: [socket]
`), []map[string]string{
		{"path": "relative/store", "list": "/etc/gosrpt/list.yaml", "name": "disk0"}, {"path": "/other/store", "name": "disk0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	cwd, _ := os.Getwd()
	want := host.Isolation{
		User: &host.User{UID: 4711, GID: 4712}, PIDNamespace: true,
		Limits: []host.Limit{
			{Name: "nofile", Resource: unix.RLIMIT_NOFILE, Value: 1024}, {Name: "as", Resource: unix.RLIMIT_AS, Value: 4 << 30},
			{Name: "core", Resource: unix.RLIMIT_CORE}, {Name: "memlock", Resource: unix.RLIMIT_MEMLOCK, Value: unix.RLIM_INFINITY},
		},
		Files: &host.Files{
			Required: true, ReadOnly: []string{"/etc/ssl", "/etc/gosrpt"},
			ReadWrite: []string{filepath.Join(cwd, "relative/store"), "/other/store", "/var/lib/disk0/data"},
		},
		Deny: append(host.PluginProfile(), "socket"),
	}
	if !reflect.DeepEqual(m.isolation, want) || m.kind != "backstore" || m.description != "keeps blocks in a file" {
		t.Errorf("%+v\nwant %+v", m, want)
	}
	if m, err := parseManifest("x", nil, nil); err != nil || m.isolation.Launches() || m.isolation.NewPrivs {
		t.Errorf("an empty manifest: %+v, %v", m, err)
	}
	if m, err := parseManifest("x", []byte("no_new_privs: false"), nil); err != nil || !m.isolation.NewPrivs {
		t.Errorf("no_new_privs: false: %+v, %v", m, err)
	}
}

func TestManifestErrorsNameFileLineAndKey(t *testing.T) {
	for text, want := range map[string]string{
		"kind: disk":                             "x:2: kind: \"disk\" is none of backstore, auth, ioctx",
		"kinds: auth":                            "x:2: kinds: no such key; there are description, group, kind, ",
		"kind: auth\nkind: auth":                 "x:3: kind: a second time",
		"[a]":                                    "x:2: keys and values are wanted",
		"kind: [a]":                              "x:2: kind: one value",
		"kind:":                                  "x:2: kind: one value",
		"protocol: [99]":                         "x:2: protocol: it speaks major version 99 of the plugin protocol, this host speaks 1: upgrade this host",
		"protocol: [0]":                          "x:2: protocol: \"0\" is no major version",
		"protocol: 1":                            "x:2: protocol: a list is wanted",
		"user: nobody-of-this-name":              "x:2: user: ",
		"user: '-1'":                             "x:2: user: ",
		"group: root":                            "x:2: group: user is missing",
		"user: root\ngroup: no-such-group-here":  "x:3: group: ",
		"no_new_privs: maybe":                    "x:2: no_new_privs: \"maybe\" is neither",
		"limits: {files: 3}":                     "x:2: limits.files: no such key; there are as, core, cpu,",
		"limits:\n  nofile: many":                "x:3: limits.nofile: \"many\" is neither a number",
		"limits:\n  nofile: -1":                  "x:3: limits.nofile: \"-1\" is neither a number",
		"limits:\n  as: 99999999999999999999GiB": "x:3: limits.as: ",
		"landlock:\n  read_only: [etc]":          "x:3: landlock: \"etc\": not an absolute path",
		"landlock:\n  read_only: ['/${home}']":   "x:3: landlock: \"/${home}\": ${home}: only ${config.KEY} is known",
		"landlock: {read_only: /etc}":            "x:2: landlock.read_only: a list",
		"seccomp: {profile: strict}":             "x:2: seccomp.profile: \"strict\" is no profile",
		"seccomp:\n  deny: [mount, frobnicate]":  "x:3: seccomp.deny: this machine has no system call \"frobnicate\"",
		"no_new_privs: false\nlandlock: {}":      "x: landlock and seccomp do not work with no_new_privs: false",
		"a: [":                                   "x: line ",
		"kind: auth\n---\nkind: auth":            "a second document",
		"kind: &a auth\ndescription: *a":         "x:3: description: one value",
	} {
		_, err := parseManifest("x", []byte("# a manifest\n"+text), nil)
		if !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %q", text, err, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("kind: auth\nlimits: {core: 0}\nlandlock: {read_only: ['${config.a}/..']}\n"))
	f.Add([]byte("seccomp: {profile: plugin, deny: [mount]}\nuser: '1'\ngroup: '1'\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest("x", text, []map[string]string{{"a": "/b"}})
		if err != nil || m.isolation.Files == nil {
			return
		}
		for _, p := range append(m.isolation.Files.ReadOnly, m.isolation.Files.ReadWrite...) {
			if !filepath.IsAbs(p) {
				t.Errorf("path %q", p)
			}
		}
	})
}

func TestManifestBesideTheLinkComesBeforeTheOneBesideTheFile(t *testing.T) {
	dir, real := t.TempDir(), t.TempDir()
	target, link := put(t, real, "a-1.0", 0o755), filepath.Join(dir, "a")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	say := func(path string, core int) {
		t.Helper()
		if err := os.WriteFile(path+manifestSuffix, fmt.Appendf(nil, "limits: {core: %d}", core), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for want, by := range []string{target, link} {
		say(by, want)
		v, err := vet(kindAuth, link, nil, hclog.NewNullLogger())
		if err != nil || v.path != target || len(v.launch.Isolation.Limits) != 1 || v.launch.Isolation.Limits[0].Value != uint64(want) {
			t.Errorf("%d: %+v, %v", want, v, err)
		}
	}
	if err := os.WriteFile(link+manifestSuffix, []byte("kind: ioctx"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := vet(kindAuth, link, nil, hclog.NewNullLogger()); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "is wanted as auth") {
		t.Errorf("another kind: %v", err)
	}
}
