package main

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// What srptctl discover prints is all that an initiator needs to log in, also where a login takes less than ib_srp would ask for.
func TestDiscoveredLineLogsIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		site    func() *site
		options string
		length  uint32
	}{
		"default plan": {func() *site { return newSite(t, quietLUN()...) }, ",cmd_sg_entries=255", 8260},
		"short units":  {func() *site { return planned(t, "max_request_iu=2KiB") }, ",cmd_sg_entries=122,max_it_iu_size=2048", 2048},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.site()
			s.start(t)
			from := loopback()
			var line string
			eventually(t, "the daemon answers discovery", func() bool {
				out, code := s.ctl(t, "discover", "--from", from.String(), s.addr.String())
				line = strings.TrimSpace(out)
				return code == 0
			})
			infos, code := s.ctl(t, "connect-info")
			if code != 0 || strings.TrimSpace(infos) != line || !strings.HasSuffix(line, c.options) {
				t.Errorf("connect-info says %q\n discovery says %q", infos, line)
			}
			h := newComputer(t)
			cfg := h.config(s)
			cfg.Remote, cfg.Target, cfg.IULen = parseAddTarget(t, line)
			if cfg.IULen != c.length {
				t.Errorf("ib_srp asks for units of %d bytes, want %d", cfg.IULen, c.length)
			}
			h.login(t, cfg, 0)
		})
	}
}

// parseAddTarget reads a line as Linux's ib_srp does: whom to log in to, and the length of unit to ask for, with room for
// immediate data.
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
	length = max(48+16+20+16*uint32(number("cmd_sg_entries", 10)), 68+8192)
	if set["max_it_iu_size"] != "" {
		length = min(length, uint32(number("max_it_iu_size", 10)))
	}
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
