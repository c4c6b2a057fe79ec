package config

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// maxInterfaceName is the longest name of a network interface (IFNAMSIZ less the final NUL).
const maxInterfaceName = 15

// validateInterfaces checks the rules one by one, then whether they contradict each other or listen.
func (c *Config) validateInterfaces(p *problems) {
	const key = "roce.interfaces"
	for i, rule := range c.RoCE.Interfaces {
		if err := checkInterfaceRule(rule); err != nil {
			p.add(key, "%v", err)
		}
		if slices.Contains(c.RoCE.Interfaces[:i], rule) {
			p.add(key, "%q stands there twice", rule)
		}
		if plain, left := strings.CutPrefix(rule, "!"); left && slices.Contains(c.RoCE.Interfaces, plain) {
			p.add(key, "%q and %q cancel each other", plain, rule)
		}
		for _, a := range c.Listen {
			if leavesOut(rule, a) {
				p.add("listen", "%s is left out by the rule %q of %s", a, rule, key)
			}
		}
	}
}

// checkInterfaceRule says what is wrong with a rule.
func checkInterfaceRule(rule string) error {
	s := strings.TrimPrefix(rule, "!")
	_, prefixErr := netip.ParsePrefix(s)
	a, addrErr := netip.ParseAddr(s)
	_, patternErr := path.Match(s, "")
	switch {
	case s == "":
		return fmt.Errorf("a rule is empty: write one that begins with ! in quotes")
	case rule == "!all":
		return fmt.Errorf("!all leaves nothing to serve")
	case addrErr == nil && a.Zone() != "":
		return fmt.Errorf("%q: a rule has no zone: name the interface %s, or give the address alone", rule, a.Zone())
	case addrErr == nil || prefixErr == nil:
		return nil
	case strings.Contains(s, "/"):
		return fmt.Errorf("%q is not a prefix such as 10.1.0.0/16", rule)
	case strings.Contains(s, ":") || strings.Trim(s, "0123456789.") == "" && strings.Contains(s, "."):
		return fmt.Errorf("%q is not an IP address", rule)
	case patternErr != nil:
		return fmt.Errorf("%q is not a pattern of names: %w", rule, patternErr)
	case strings.ContainsAny(s, " \t\r\n"):
		return fmt.Errorf("%q: no interface has a space in its name", rule)
	case !strings.ContainsAny(s, `*?[\`) && len(s) > maxInterfaceName:
		return fmt.Errorf("%q is longer than the name of an interface, %d characters", rule, maxInterfaceName)
	}
	return nil
}

// leavesOut tells whether a rule excludes an address.
func leavesOut(rule string, a netip.Addr) bool {
	s, left := strings.CutPrefix(rule, "!")
	if !left {
		return false
	}
	if b, err := netip.ParseAddr(s); err == nil {
		return b.Unmap() == a.WithZone("")
	}
	x, err := netip.ParsePrefix(s)
	return err == nil && x.Contains(a.WithZone(""))
}
