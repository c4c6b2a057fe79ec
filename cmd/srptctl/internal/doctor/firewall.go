package doctor

import (
	"errors"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// rules is a tool's listing of one kind of packet filter.
type rules struct {
	nft []byte
	// save is iptables-save's, and ip6tables-save's, by packet.v6.
	save map[bool]string
	// overNft tells that iptables' rules are in nft's tables.
	overNft bool
}

// firewall looks whether a packet filter lets RoCE through, in and out.
func (e *exam) firewall() {
	const check = "firewall"
	if !e.root() {
		e.add(NotChecked, check, "UDP 4791", "sudo srptctl doctor", "the rules cannot be read without root")
		return
	}
	rules, ok := e.readRules()
	if !ok {
		return
	}
	before := len(e.found)
	seen := map[string]bool{}
	for _, out := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			if p, any := e.packet(v6, out); any {
				e.filter(rules, p, seen)
			}
		}
	}
	if len(e.found) == before {
		e.add(OK, check, "UDP 4791", "", "no rule keeps it out")
	}
}

// readRules reads what there is. ok is false if that is nothing; then it is told why.
func (e *exam) readRules() (r rules, ok bool) {
	const check = "firewall"
	r.save = map[bool]string{}
	var err error
	if r.nft, err = e.host.Output(e.ctx, "nft", "-j", "list", "ruleset"); errors.Is(err, exec.ErrNotFound) {
		e.add(NotChecked, check, "nftables", "install nftables (nft), and look again", "nft, which reads the rules, is not installed")
	} else if err != nil {
		e.add(NotChecked, check, "nftables", "", "the rules cannot be read: %v", err)
	}
	ok = err == nil
	// Not where there are none: the tool would load the modules.
	if !e.host.exists("/proc/net/ip_tables_names") && !e.host.exists("/proc/net/ip6_tables_names") && !e.host.exists("/sys/module/nft_compat") {
		return r, ok
	}
	for v6, tool := range map[bool]string{false: "iptables-save", true: "ip6tables-save"} {
		b, err := e.host.Output(e.ctx, tool)
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			e.add(NotChecked, check, tool, "", "the rules cannot be read: %v", err)
		default:
			r.save[v6], ok = string(b), true
			r.overNft = r.overNft || strings.Contains(r.save[v6], "(nf_tables)")
		}
	}
	return r, ok
}

// packet is what comes to, or leaves, the interfaces that are served. any is false if they have no address of the version.
func (e *exam) packet(v6, out bool) (p packet, any bool) {
	p = packet{v6: v6, out: out}
	listen := e.listen()
	for _, l := range e.served() {
		if slices.ContainsFunc(l.Addrs, func(a Addr) bool {
			ip := a.Prefix.Addr()
			wanted := len(listen) == 0 || slices.ContainsFunc(listen, func(x netip.Addr) bool { return x.WithZone("") == ip.WithZone("") })
			return ip.Is6() == v6 && (wanted || l.Loopback)
		}) {
			p.links = append(p.links, l.Name)
		}
	}
	return p, len(p.links) > 0
}

// filter judges a packet by every table. Each chain is told once.
func (e *exam) filter(r rules, p packet, seen map[string]bool) {
	var tables []*ruleset
	if r.nft != nil {
		list, err := parseNft(r.nft, p)
		if err != nil && !seen["nft"] {
			seen["nft"] = true
			e.add(NotChecked, "firewall", "nftables", "", "the rules are not understood: %v", err)
		}
		for _, t := range list {
			// iptables' own are read from its own tool, which says more.
			if !(r.overNft && r.save[p.v6] != "" && t.name == "filter" && t.family == family(p.v6)) {
				tables = append(tables, t)
			}
		}
	}
	if s := r.save[p.v6]; s != "" {
		tables = append(tables, parseIptables(s, p)...)
	}
	for _, t := range tables {
		for _, name := range slices.Sorted(maps.Keys(t.chains)) {
			where := t.family + " " + t.name + " " + name
			if !t.chains[name].base || seen[where] {
				continue
			}
			if e.verdict(t, name, p) {
				seen[where] = true
			}
		}
	}
}

func family(v6 bool) string {
	if v6 {
		return "ip6"
	}
	return "ip"
}

// verdict tells what a chain does to a packet, if that is not to let it through.
func (e *exam) verdict(t *ruleset, name string, p packet) bool {
	f, byPolicy := t.judge(name)
	if f&dropped == 0 {
		return false
	}
	why := "a rule drops them"
	if byPolicy {
		why = "its policy is drop"
	}
	what := "packets to UDP port 4791"
	if p.out {
		what = "packets of srptd's to UDP port 4791"
	}
	subject := "table " + t.family + " " + t.name + ", chain " + name
	if f&accepted != 0 {
		e.add(Warning, "firewall", subject, mendFirewall(t, name, p), "it depends on more than the port whether %s pass (%s); see that initiators' do", what, why)
	} else {
		e.add(Problem, "firewall", subject, mendFirewall(t, name, p), "%s do not pass: %s", what, why)
	}
	return true
}

// mendFirewall is the command that lets RoCE pass, in the words of whoever made the rules.
func mendFirewall(t *ruleset, name string, p packet) string {
	ufw := false
	for c := range t.chains {
		ufw = ufw || strings.HasPrefix(c, "ufw")
	}
	switch {
	case t.name == "firewalld":
		return "firewall-cmd --permanent --add-port=4791/udp && firewall-cmd --reload"
	case ufw && p.out:
		return "ufw allow out 4791/udp"
	case ufw:
		return "ufw allow 4791/udp"
	case name == "INPUT" || name == "OUTPUT":
		tool := "iptables"
		if t.family == "ip6" {
			tool = "ip6tables"
		}
		return tool + " -I " + name + " -p udp --dport 4791 -j ACCEPT"
	}
	return "nft insert rule " + t.family + " " + t.name + " " + name + " udp dport 4791 accept, and keep it in /etc/nftables.conf"
}
