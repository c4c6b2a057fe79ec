package main

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// What srptctl discover prints is all that an initiator needs to log in.
func TestDiscoveredLineLogsIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	from := loopback()
	var line string
	eventually(t, "the daemon answers discovery", func() bool {
		out, code := s.ctl(t, "discover", "--from", from.String(), s.addr.String())
		line = strings.TrimSpace(out)
		return code == 0
	})
	infos, code := s.ctl(t, "connect-info")
	if code != 0 || strings.TrimSpace(infos) != line {
		t.Errorf("connect-info says %q\n discovery says %q", infos, line)
	}
	h := newComputer(t)
	cfg := h.config(s)
	cfg.Remote, cfg.Target, cfg.IULen = parseAddTarget(t, line)
	session := h.login(t, cfg, 0)
	if err := session.TestUnitReady(soon(t), lunOf(0)); err != nil {
		t.Error(err)
	}
}

// parseAddTarget reads a line as Linux's ib_srp does: whom to log in to, and the length of unit to ask for.
func parseAddTarget(t *testing.T, line string) (remote netip.AddrPort, target srp.PortID, length uint32) {
	t.Helper()
	set := map[string]string{}
	for _, f := range strings.Split(line, ",") {
		key, value, ok := strings.Cut(f, "=")
		if _, again := set[key]; !ok || again {
			t.Fatalf("%q in %q", f, line)
		}
		set[key] = value
	}
	number := func(key string, base int) uint64 {
		n, err := strconv.ParseUint(set[key], base, 64)
		if err != nil {
			t.Fatalf("%s in %q: %v", key, line, err)
		}
		return n
	}
	remote, err := netip.ParseAddrPort(set["dest"])
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	length = 48 + 16 + 20 + 16*uint32(number("cmd_sg_entries", 10))
	return remote, srp.MakePortID(number("id_ext", 16), number("ioc_guid", 16)), length
}

// The daemon's own address is taken; the operator is told what to do.
func TestDiscoveryFromTheDaemonsOwnAddressSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	out, code := s.ctl(t, "discover", "--from", s.addr.String(), s.addr.String())
	if code != 1 || !strings.Contains(out, "cannot ask from "+s.addr.String()) || !strings.Contains(out, "--from") || !strings.Contains(out, "connect-info") {
		t.Errorf("ended with %d:\n%s", code, out)
	}
}
