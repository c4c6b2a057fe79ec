package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
