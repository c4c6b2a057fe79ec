package roce

import (
	"net/netip"
	"path"
	"slices"
	"strings"
)

// rule is one of Config.Interfaces.
type rule struct {
	exclude bool
	all     bool
	pattern string       // of names
	prefix  netip.Prefix // valid if it is a rule about addresses
}

// parseRule reads a rule. What is no address is a pattern of names.
func parseRule(s string) (r rule) {
	s, r.exclude = strings.CutPrefix(s, "!")
	if p, err := netip.ParsePrefix(s); err == nil {
		r.prefix = p.Masked()
		return r
	}
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return r
	}
	r.all, r.pattern = s == "all", s
	return r
}

func (r *rule) ofNames() bool { return !r.all && !r.prefix.IsValid() }

func (r *rule) hasName(name string) bool {
	if !r.ofNames() {
		return false
	}
	ok, err := path.Match(r.pattern, name)
	return ok || err != nil && r.pattern == name
}

func (r *rule) hasAddr(a netip.Addr) bool {
	return r.prefix.IsValid() && r.prefix.Contains(a.WithZone(""))
}

// rules selects interfaces and their addresses.
type rules []rule

func parseRules(list []string) (rs rules) {
	for _, s := range list {
		rs = append(rs, parseRule(s))
	}
	return rs
}

// has tells whether a rule that takes in, or one that leaves out, is met.
func (rs rules) has(exclude bool, meets func(*rule) bool) bool {
	return slices.ContainsFunc(rs, func(r rule) bool { return r.exclude == exclude && meets(&r) })
}

// everything tells whether interfaces are taken that no rule names.
func (rs rules) everything() bool {
	return rs.has(false, func(r *rule) bool { return r.all }) || !rs.has(false, func(*rule) bool { return true })
}

// named tells whether a rule takes an interface in by its name.
func (rs rules) named(name string) bool {
	return rs.has(false, func(r *rule) bool { return r.hasName(name) })
}

// refuses tells whether a rule leaves an interface out.
func (rs rules) refuses(name string) bool {
	return rs.has(true, func(r *rule) bool { return r.all || r.hasName(name) })
}

// takes tells whether an address of an interface is used.
func (rs rules) takes(n *nic, a netip.Addr) bool {
	if rs.has(true, func(r *rule) bool { return r.hasAddr(a) }) {
		return false
	}
	return rs.everything() || rs.named(n.name) || rs.has(false, func(r *rule) bool { return r.hasAddr(a) })
}
