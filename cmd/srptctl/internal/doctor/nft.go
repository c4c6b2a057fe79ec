package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// nftObject is one of those that nft -j list ruleset prints.
type nftObject struct {
	Chain *nftChain `json:"chain"`
	Rule  *nftRule  `json:"rule"`
	Set   *nftSet   `json:"set"`
	Map   *nftSet   `json:"map"`
}

type nftChain struct{ Family, Table, Name, Type, Hook, Policy string }

type nftRule struct {
	Family, Table, Chain string
	Expr                 []map[string]any
}

type nftSet struct {
	Family, Table, Name string
	Elem                []any
}

// nftReader reads the rules as they are for a packet.
type nftReader struct {
	packet packet
	tables []*ruleset
	// sets are the named sets and maps by family, table and name.
	sets map[[3]string][]any
	// family and table are those of the rule that is read.
	family, table string
}

// parseNft reads what nft -j list ruleset prints, for a packet. What it does not understand may match or not.
func parseNft(doc []byte, p packet) ([]*ruleset, error) {
	var all struct {
		Nftables []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(doc, &all); err != nil {
		return nil, fmt.Errorf("nft -j list ruleset: %w", err)
	}
	r := nftReader{packet: p, sets: map[[3]string][]any{}}
	for _, o := range all.Nftables {
		for _, s := range []*nftSet{o.Set, o.Map} {
			if s != nil {
				r.sets[[3]string{s.Family, s.Table, s.Name}] = s.Elem
			}
		}
		if o.Chain != nil {
			r.chain(o.Chain)
		}
	}
	for _, o := range all.Nftables {
		if o.Rule == nil {
			continue
		}
		r.family, r.table = o.Rule.Family, o.Rule.Table
		if c := r.ruleset(r.family, r.table).chains[o.Rule.Chain]; c != nil {
			c.rules = append(c.rules, r.rule(o.Rule.Expr))
		}
	}
	return r.tables, nil
}

func (r *nftReader) ruleset(family, name string) *ruleset {
	i := slices.IndexFunc(r.tables, func(t *ruleset) bool { return t.family == family && t.name == name })
	if i >= 0 {
		return r.tables[i]
	}
	t := &ruleset{family: family, name: name, chains: map[string]*chain{}, fates: map[string]fate{}}
	r.tables = append(r.tables, t)
	return t
}

func (r *nftReader) chain(c *nftChain) {
	hook := "input"
	if r.packet.out {
		hook = "output"
	}
	k := &chain{base: c.Type == "filter" && c.Hook == hook && r.concerns(c.Family), policy: accept}
	if c.Policy == "drop" {
		k.policy = drop
	}
	r.ruleset(c.Family, c.Table).chains[c.Name] = k
}

// concerns tells whether a family's tables see the packet.
func (r *nftReader) concerns(family string) bool {
	return family == "inet" || family == "ip" && !r.packet.v6 || family == "ip6" && r.packet.v6
}

// neutral are statements that neither match nor end.
var neutral = []string{"counter", "log", "comment", "mangle", "notrack", "ct helper", "ct timeout", "flow", "set"}

// rule reads the statements of a rule.
func (r *nftReader) rule(expr []map[string]any) []branch {
	match := yes
	for _, statement := range expr {
		for key, v := range statement {
			switch key {
			case "match":
				match = min(match, r.match(v))
			case "vmap":
				return r.vmap(match, v)
			case "accept", "drop", "return", "jump", "goto":
				return []branch{verdictOf(match, key, v)}
			case "reject":
				return []branch{{match: match, verdict: drop}}
			case "xt":
				b, end := xt(match, v)
				if end {
					return b
				}
				match = b[0].match
			case "queue":
				return unknownEnd(match)
			default:
				if !slices.Contains(neutral, key) {
					match = min(match, maybe)
				}
			}
		}
	}
	return []branch{{match: match}}
}

// unknownEnd is that of a rule that accepts or drops, nobody knows which.
func unknownEnd(match answer) []branch {
	m := min(match, maybe)
	return []branch{{match: m, verdict: accept}, {match: m, verdict: drop}}
}

// xt reads a piece of iptables, which nft does not translate.
func xt(match answer, v any) (b []branch, end bool) {
	m, _ := v.(map[string]any)
	switch kind, name := m["type"], m["name"]; {
	case kind == "match" && name == "comment":
		return []branch{{match: match}}, false
	case kind == "target" && name == "REJECT":
		return []branch{{match: match, verdict: drop}}, true
	case kind == "target" && (name == "LOG" || name == "NFLOG"):
		return []branch{{match: match}}, false
	case kind == "target":
		return unknownEnd(match), true
	}
	return []branch{{match: min(match, maybe)}}, false
}

var nftVerdicts = map[string]verdict{"accept": accept, "drop": drop, "return": ret, "jump": jump, "goto": goTo}

func verdictOf(match answer, key string, v any) branch {
	b := branch{match: match, verdict: nftVerdicts[key]}
	if m, ok := v.(map[string]any); ok {
		b.target, _ = m["target"].(string)
	}
	return b
}

// vmap reads a map from what a packet has to verdicts.
func (r *nftReader) vmap(match answer, v any) []branch {
	m, _ := v.(map[string]any)
	elements, ok := r.elements(m["data"])
	if !ok {
		return unknownEnd(match)
	}
	var list []branch
	for _, e := range elements {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		action, _ := pair[1].(map[string]any)
		for key, target := range action {
			list = append(list, verdictOf(min(match, r.compare(m["key"], pair[0])), key, target))
		}
	}
	return list
}

// elements are those of a set, in place or by its name. It is false if there is no such set.
func (r *nftReader) elements(v any) ([]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		list, ok := v["set"].([]any)
		return list, ok
	case string:
		if name, named := strings.CutPrefix(v, "@"); named {
			list, ok := r.sets[[3]string{r.family, r.table, name}]
			return list, ok
		}
	}
	return nil, false
}

func (r *nftReader) match(v any) answer {
	m, _ := v.(map[string]any)
	switch a := r.compare(m["left"], m["right"]); m["op"] {
	case "==", "in":
		return a
	case "!=":
		return not(a)
	}
	return maybe
}

// compare tells whether what an expression selects is, or is within, what stands on the right.
func (r *nftReader) compare(left, right any) answer {
	l, _ := left.(map[string]any)
	p := &r.packet
	if m, ok := l["meta"].(map[string]any); ok {
		switch key, _ := m["key"].(string); key {
		case "l4proto":
			return r.within("udp", right)
		case "nfproto":
			return r.within(map[bool]string{false: "ipv4", true: "ipv6"}[p.v6], right)
		case "protocol":
			return r.within(map[bool]string{false: "ip", true: "ip6"}[p.v6], right)
		case "iifname", "iif":
			return r.link(!p.out, right)
		case "oifname", "oif":
			return r.link(p.out, right)
		}
	}
	if m, ok := l["ct"].(map[string]any); ok && m["key"] == "state" {
		return r.within("new", right)
	}
	if m, ok := l["payload"].(map[string]any); ok {
		return r.payload(m, right)
	}
	return maybe
}

func (r *nftReader) payload(m map[string]any, right any) answer {
	protocol, _ := m["protocol"].(string)
	field, _ := m["field"].(string)
	switch protocol {
	case "udp", "th":
		if field == "dport" {
			return r.within(float64(wire.UDPPort), right)
		}
		return maybe
	case "ip", "ip6":
		if (protocol == "ip6") != r.packet.v6 {
			return no
		}
		if field == "protocol" || field == "nexthdr" {
			return r.within("udp", right)
		}
		return maybe
	case "tcp", "icmp", "icmpv6", "sctp", "dccp", "udplite", "esp", "ah", "comp", "igmp":
		return no
	}
	return maybe
}

// link tells whether one of the packet's interfaces is meant. known is false for the direction in which it has none.
func (r *nftReader) link(known bool, right any) answer {
	if !known {
		return no
	}
	if name, ok := right.(string); ok && !strings.HasPrefix(name, "@") {
		return r.packet.linkMatch(name)
	}
	elements, ok := r.elements(right)
	if !ok {
		return maybe
	}
	a := no
	for _, e := range elements {
		if name, ok := e.(string); ok {
			a = either(a, r.packet.linkMatch(name))
		} else {
			a = either(a, maybe)
		}
	}
	return a
}

// within tells whether a value is, or is among, what stands on the right.
func (r *nftReader) within(value, right any) answer {
	if name, ok := right.(string); ok && strings.HasPrefix(name, "@") {
		if list, ok := r.elements(name); ok {
			return among(value, list)
		}
		return maybe
	}
	return literal(value, right)
}

// literal is within, where no set is named.
func literal(value, right any) answer {
	switch v := right.(type) {
	case string:
		return sure(v == value)
	case float64:
		return sure(v == value || v == 17 && value == "udp")
	case []any: // flags
		return among(value, v)
	case map[string]any:
		if set, ok := v["set"].([]any); ok {
			return among(value, set)
		}
		if e, ok := v["elem"].(map[string]any); ok {
			return literal(value, e["val"])
		}
		if ends, ok := v["range"].([]any); ok && len(ends) == 2 {
			return between(value, ends[0], ends[1])
		}
	}
	return maybe
}

func between(value, low, high any) answer {
	n, ok := value.(float64)
	l, okLow := low.(float64)
	h, okHigh := high.(float64)
	if !ok || !okLow || !okHigh {
		return maybe
	}
	return sure(l <= n && n <= h)
}

func among(value any, list []any) answer {
	a := no
	for _, v := range list {
		a = either(a, literal(value, v))
	}
	return a
}
