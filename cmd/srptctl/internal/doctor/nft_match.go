package doctor

import (
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// match tells whether the packet is as a match statement wants it.
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
