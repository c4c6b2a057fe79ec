package accesslist

import (
	"fmt"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

// rule is one name of a host. One of its fields counts, by kind.
type rule struct {
	kind string // auth.KindPortID, KindGID or KindAddress
	id   auth.ID
	net  netip.Prefix
}

// parseRule reads "kind:name".
func parseRule(text string) (rule, error) {
	kind, name, ok := strings.Cut(strings.TrimSpace(text), ":")
	name = strings.TrimSpace(name)
	r := rule{kind: strings.ToLower(strings.TrimSpace(kind))}
	var err error
	switch {
	case !ok:
		err = fmt.Errorf("it does not say of which kind the name is")
	case r.kind == auth.KindPortID:
		r.id, err = auth.ParseID(name)
	case r.kind == auth.KindGID:
		r.id, err = parseGID(name)
	case r.kind == auth.KindAddress:
		r.net, err = parseNet(name)
	default:
		err = fmt.Errorf("there is no kind %q", kind)
	}
	if err != nil {
		return rule{}, fmt.Errorf("initiator %q: %w; write %s:, %s: or %s: and the name", text, err, auth.KindPortID, auth.KindGID, auth.KindAddress)
	}
	return r, nil
}

// parseGID reads a GID as an identifier or as an IPv6 address.
func parseGID(s string) (auth.ID, error) {
	id, err := auth.ParseID(s)
	if err == nil {
		return id, nil
	}
	if a, e := netip.ParseAddr(s); e == nil && a.Is6() && a.Zone() == "" {
		return auth.ID(a.As16()), nil
	}
	return auth.ID{}, err
}

// parseNet reads an address or a network.
func parseNet(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		a = auth.PlainAddr(a)
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, err
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("the network %v has bits beyond its length; %v is meant?", p, p.Masked())
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("write the network %v with IPv4 addresses", p)
	}
	return p, nil
}

// matches tells whether the rule names the initiator of a login.
func (r rule) matches(l *auth.Login) bool {
	switch r.kind {
	case auth.KindPortID:
		return r.id == l.Initiator
	case auth.KindGID:
		return r.id == l.SourceGID
	case auth.KindAddress:
		return l.SourceAddr.IsValid() && r.net.Contains(auth.PlainAddr(l.SourceAddr))
	}
	return false
}

// String is the rule as it can stand in a list, in the one spelling in which names are printed.
func (r rule) String() string {
	switch {
	case r.kind == auth.KindPortID:
		return r.kind + ":" + r.id.String()
	case r.kind == auth.KindGID:
		return r.kind + ":" + r.id.GID()
	case r.net.IsSingleIP():
		return r.kind + ":" + r.net.Addr().String()
	}
	return r.kind + ":" + r.net.String()
}

// UnmarshalYAML reads "kind:name", or the mapping that YAML makes of "kind: name".
func (r *rule) UnmarshalYAML(n *yaml.Node) error {
	text := n.Value
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		text = n.Content[0].Value + ":" + n.Content[1].Value
	} else if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: an initiator is one name, as in %s:0x1", n.Line, auth.KindPortID)
	}
	var err error
	if *r, err = parseRule(text); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// MarshalYAML writes the rule's String.
func (r rule) MarshalYAML() (any, error) { return r.String(), nil }
