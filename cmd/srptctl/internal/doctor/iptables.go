package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// parseIptables reads the filter table of what iptables-save prints, for a packet.
func parseIptables(doc string, p packet) []*ruleset {
	family := "ip"
	if p.v6 {
		family = "ip6"
	}
	r := &ruleset{family: family, name: "filter", chains: map[string]*chain{}, fates: map[string]fate{}}
	base := "INPUT"
	if p.out {
		base = "OUTPUT"
	}
	table := ""
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case table != "filter":
		case strings.HasPrefix(line, ":"):
			if f := strings.Fields(line[1:]); len(f) >= 2 {
				c := &chain{base: f[0] == base, policy: accept}
				if f[1] == "DROP" {
					c.policy = drop
				}
				r.chains[f[0]] = c
			}
		case strings.HasPrefix(line, "-A "):
			if w := words(line); len(w) >= 2 && r.chains[w[1]] != nil {
				c := r.chains[w[1]]
				c.rules = append(c.rules, r.rule(w[2:], &p))
			}
		}
	}
	return []*ruleset{r}
}

// words splits a line at spaces outside of quotes.
func words(line string) []string {
	var list []string
	var word strings.Builder
	inWord, quoted, escaped := false, false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted, inWord = !quoted, true
		case c == ' ' && !quoted:
			if inWord {
				list = append(list, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		list = append(list, word.String())
	}
	return list
}

// rule reads the options of a rule.
func (r *ruleset) rule(w []string, p *packet) []branch {
	match := yes
	for i := 0; i < len(w); {
		negated := w[i] == "!"
		if negated {
			if i++; i == len(w) {
				break
			}
		}
		option := w[i]
		i++
		var args []string
		for i < len(w) && w[i] != "!" && !strings.HasPrefix(w[i], "-") {
			args = append(args, w[i])
			i++
		}
		arg := ""
		if len(args) > 0 {
			arg = args[0]
		}
		if option == "-j" || option == "-g" {
			return r.target(match, option, arg)
		}
		a := optionMatch(option, arg, p)
		if negated {
			a = not(a)
		}
		match = min(match, a)
	}
	return []branch{{match: match}}
}

// optionMatch tells whether a packet is as an option wants it.
func optionMatch(option, arg string, p *packet) answer {
	switch option {
	case "-m", "--comment":
		return yes
	case "-p":
		return sure(arg == "udp" || arg == "17" || arg == "all")
	case "--dport", "--dports":
		return portMatch(arg)
	case "-i":
		if p.out {
			return no
		}
		return p.linkMatch(star(arg))
	case "-o":
		if !p.out {
			return no
		}
		return p.linkMatch(star(arg))
	case "--ctstate", "--state":
		return sure(slices.Contains(strings.Split(arg, ","), "NEW"))
	}
	return maybe
}

// star writes eth+ as eth*.
func star(name string) string {
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		return prefix + "*"
	}
	return name
}

// portMatch tells whether the RoCE port is in a list such as 1,4700:4800.
func portMatch(list string) answer {
	a := no
	for _, item := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(item, ":")
		if !isRange {
			high = low
		}
		l, err1 := strconv.ParseUint(low, 10, 16)
		h, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil {
			a = either(a, maybe)
			continue
		}
		a = either(a, sure(l <= wire.UDPPort && wire.UDPPort <= h))
	}
	return a
}

// passing are targets after which a packet goes on.
var passing = []string{"LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "CT", "AUDIT", "TRACE", "SECMARK", "CONNSECMARK", "DSCP", "TOS", "CLASSIFY", "SET"}

func (r *ruleset) target(match answer, option, name string) []branch {
	switch {
	case name == "ACCEPT":
		return []branch{{match: match, verdict: accept}}
	case name == "DROP" || name == "REJECT":
		return []branch{{match: match, verdict: drop}}
	case name == "RETURN":
		return []branch{{match: match, verdict: ret}}
	case slices.Contains(passing, name):
		return []branch{{match: match}}
	case r.chains[name] == nil:
		return unknownEnd(match)
	case option == "-g":
		return []branch{{match: match, verdict: goTo, target: name}}
	}
	return []branch{{match: match, verdict: jump, target: name}}
}
