package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/srp"
)

// guarded makes a site with two LUNs and an access list.
func guarded(t testing.TB, hosts string, args ...string) *site {
	t.Helper()
	s := newSite(t, append([]string{
		"--lun", "lun=0,name=disk0,path=DIR/disk0,size=8MiB", "--lun", "lun=1,name=disk1,path=DIR/disk1,size=8MiB",
		"--auth-plugin", "auth", "--auth-config", "list=DIR/access.yaml",
	}, args...)...)
	s.installAs(t, "auth", "auth")
	s.permit(t, hosts)
	return s
}

// permit replaces the access list.
func (s *site) permit(t testing.TB, hosts string) {
	t.Helper()
	file := s.file("access.yaml")
	if err := errors.Join(os.WriteFile(file+".new", []byte("hosts: ["+hosts+"]\n"), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// everything is a host of the access list that may do anything.
func everything(name string, id srp.PortID) string {
	return fmt.Sprintf("{name: %s, initiators: ['port_id:%v'], luns: all}\n,", name, id)
}

// loginAs logs in as somebody.
func (h *computer) loginAs(t testing.TB, s *site, id srp.PortID, luns ...uint32) *initiator.Session {
	t.Helper()
	cfg := h.config(s)
	cfg.Initiator = id
	return h.login(t, cfg, luns...)
}

// refused logs in as somebody who must be refused with a reason.
func (h *computer) refused(t testing.TB, s *site, id srp.PortID, want srp.RejReason) {
	t.Helper()
	cfg := h.config(s)
	cfg.Initiator = id
	session, err := initiator.Dial(soon(t), cfg)
	if err == nil {
		session.Close()
	}
	var rej *initiator.RejectError
	if !errors.As(err, &rej) || rej.Login != want {
		t.Errorf("the login of %v ended with %v, want %v", id, err, want)
	}
}

// admits waits until somebody can log in, and returns the session.
func (h *computer) admits(t testing.TB, s *site, id srp.PortID) *initiator.Session {
	t.Helper()
	cfg := h.config(s)
	cfg.Initiator = id
	var session *initiator.Session
	eventually(t, fmt.Sprintf("%v can log in", id), func() bool {
		var err error
		if session, err = initiator.Dial(soon(t), cfg); err != nil && !errors.Is(err, initiator.ErrRejected) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { session.Close() })
	return session
}

// pluginNamed is what the daemon tells of a plugin.
func (s *site) pluginNamed(t testing.TB, name string) *adminpb.Plugin {
	t.Helper()
	r, err := ask(s, adminpb.AdminClient.Plugins, &adminpb.PluginsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Plugins, func(p *adminpb.Plugin) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no plugin %s in %v", name, r.Plugins)
	}
	return r.Plugins[i]
}

// line is the log line, once it is there, that has every word.
func (d *srptd) line(t testing.TB, words ...string) (line string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a log line with %q", words), func() bool {
		for l := range strings.Lines(d.out.String()) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l, w) }) {
				line = l
				return true
			}
		}
		return false
	})
	return line
}

// expectSense expects CHECK CONDITION.
func expectSense(t testing.TB, what string, err error, key, asc, ascq byte) {
	t.Helper()
	var status *initiator.StatusError
	if !errors.As(err, &status) {
		t.Errorf("%s: %v, want sense %x/%02x/%02x", what, err, key, asc, ascq)
	} else if k, a, q := status.Code(); k != key || a != asc || q != ascq {
		t.Errorf("%s: sense %x/%02x/%02x, want %x/%02x/%02x", what, k, a, q, key, asc, ascq)
	}
}

// between is the time between the first lines of a log that have two texts.
func between(t testing.TB, log, first, second string) time.Duration {
	t.Helper()
	at := func(text string) time.Time {
		for l := range strings.Lines(log) {
			if strings.Contains(l, text) {
				stamp, _, _ := strings.Cut(l, " ")
				when, err := time.Parse("2006-01-02T15:04:05.000Z0700", stamp)
				if err != nil {
					t.Fatal(err)
				}
				return when
			}
		}
		t.Fatalf("no %q in\n%s", text, log)
		return time.Time{}
	}
	return at(second).Sub(at(first))
}

// faulty makes a site whose auth or ioctx plugin is the one that misbehaves on request.
func faulty(t testing.TB, kind string, args ...string) *site {
	t.Helper()
	s := newSite(t, append([]string{"--lun", "lun=0,name=disk,path=DIR/disk,size=8MiB", "--" + kind + "-plugin", "faulty"}, args...)...)
	s.installAs(t, "testcontrol", "testcontrol")
	s.write(t, "faulty", []byte("#!/bin/sh\nexec "+s.plugin("testcontrol")+" "+kind+"\n"))
	return s
}

// asking is an initiator whose login asks the plugin that misbehaves for something.
func asking(what uint64) srp.PortID {
	return srp.MakePortID(0x0200_0000_0000_2000, 0x0200_0000_0000_0b00|what)
}
