package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nftDoc is a ruleset as nft prints it: a table with chains and rules that are given by their JSON.
func nftDoc(family, table, chain, policy string, rules ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": %q, "name": %q}},
{"chain": {"family": %[1]q, "table": %[2]q, "name": %[3]q, "type": "filter", "hook": %[5]q, "prio": 0, "policy": %[4]q}}`, family, table, chain, policy, strings.ToLower(chain))
	for _, r := range rules {
		fmt.Fprintf(&b, `,`+"\n"+`{"rule": {"family": %q, "table": %q, "chain": %q, "expr": [%s]}}`, family, table, chain, r)
	}
	return b.String() + "]}"
}

// Pieces of rules, as nft prints them.
const (
	toAccept  = `{"accept": null}`
	toDrop    = `{"drop": null}`
	ourPort   = `{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}`
	fromTen   = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"prefix": {"addr": "10.0.0.0", "len": 8}}}}`
	isKnown   = `{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}`
	isNew     = `{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}`
	portSet   = `{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": {"set": [53, {"range": [4000, 5000]}]}}}`
	notPort   = `{"match": {"op": "!=", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}`
	thPort    = `{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": {"set": ["tcp", "udp"]}}}, {"match": {"op": "==", "left": {"payload": {"protocol": "th", "field": "dport"}}, "right": 4791}}`
	tcpPort   = `{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 4791}}`
	byEth0    = `{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}`
	byLo      = `{"match": {"op": "==", "left": {"meta": {"key": "iif"}}, "right": "lo"}}`
	byEths    = `{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": {"set": ["eth*", "lo"]}}}`
	isUDP     = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "protocol"}}, "right": 17}}`
	isV6      = `{"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}}`
	isV4      = `{"match": {"op": "==", "left": {"meta": {"key": "protocol"}}, "right": "ip"}}`
	named     = `{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": "@open"}}`
	tooMany   = `{"limit": {"rate": 10, "per": "second"}}`
	counted   = `{"counter": {"packets": 7, "bytes": 9}}, {"log": {"prefix": "x"}}`
	stateVmap = `{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["invalid", {"drop": null}], ["established", {"accept": null}]]}}}`
	newVmap   = `{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["invalid", {"drop": null}], ["new", {"accept": null}]]}}}`
	portVmap  = `{"vmap": {"key": {"payload": {"protocol": "udp", "field": "dport"}}, "data": {"set": [[53, {"drop": null}], [4791, {"accept": null}]]}}}`
)

func TestInputChainsAreJudgedByWhatBecomesOfOurPackets(t *testing.T) {
	const chain = " table inet filter, chain input: "
	const mend = " -> nft insert rule inet filter input udp dport 4791 accept, and keep it in /etc/nftables.conf"
	const pass = "ok UDP 4791: no rule keeps it out"
	const byPolicy = "problem" + chain + "packets to UDP port 4791 do not pass: its policy is drop" + mend
	const byRule = "problem" + chain + "packets to UDP port 4791 do not pass: a rule drops them" + mend
	const depends = "warning" + chain + "it depends on more than the port whether packets to UDP port 4791 pass (its policy is drop); see that initiators' do" + mend
	const dependsOnRule = "warning" + chain + "it depends on more than the port whether packets to UDP port 4791 pass (a rule drops them); see that initiators' do" + mend
	rule := func(parts ...string) string { return strings.Join(parts, ", ") }
	for _, c := range []struct {
		name, policy string
		rules        []string
		want         string
	}{
		{"nothing", "accept", nil, pass},
		{"nothing accepts", "drop", nil, byPolicy},
		{"the port", "drop", []string{rule(ourPort, toAccept)}, pass},
		{"the port by number, counted", "drop", []string{rule(ourPort, counted, toAccept)}, pass},
		{"a set with the port", "drop", []string{rule(portSet, toAccept)}, pass},
		{"a port of any transport", "drop", []string{rule(thPort, toAccept)}, pass},
		{"all of UDP", "drop", []string{rule(isUDP, toAccept)}, pass},
		{"our interface", "drop", []string{rule(byEth0, toAccept)}, pass},
		{"interfaces like ours", "drop", []string{rule(byEths, toAccept)}, pass},
		{"another interface", "drop", []string{rule(byLo, toAccept)}, byPolicy},
		{"another transport", "drop", []string{rule(tcpPort, toAccept)}, byPolicy},
		{"all but the port", "drop", []string{rule(notPort, toAccept)}, byPolicy},
		{"known flows", "drop", []string{rule(isKnown, toAccept)}, byPolicy},
		{"new flows", "drop", []string{rule(isNew, ourPort, toAccept)}, pass},
		{"known flows by a map", "drop", []string{stateVmap}, byPolicy},
		{"new flows by a map", "drop", []string{newVmap}, pass},
		{"the port by a map", "drop", []string{portVmap}, pass},
		{"some sources", "drop", []string{rule(fromTen, ourPort, toAccept)}, depends},
		{"so many a second", "drop", []string{rule(ourPort, tooMany, toAccept)}, depends},
		{"a set that there is not", "drop", []string{rule(named, toAccept)}, depends},
		{"a matched port after some sources", "drop", []string{rule(fromTen, toAccept), rule(ourPort, toAccept)}, pass},
		{"the port is dropped", "accept", []string{rule(ourPort, toDrop)}, byRule},
		{"the port is rejected", "accept", []string{rule(ourPort, `{"reject": {"type": "icmpx"}}`)}, byRule},
		{"dropped after it was accepted", "accept", []string{rule(ourPort, toAccept), toDrop}, pass},
		{"some sources are dropped", "accept", []string{rule(fromTen, toDrop)}, dependsOnRule},
		{"IPv6 is dropped", "accept", []string{rule(isV6, toDrop)}, pass},
		{"IPv4 alone is accepted", "drop", []string{rule(isV4, toAccept)}, pass},
		{"who knows", "accept", []string{`{"xt": {"type": "target", "name": "MYSTERY"}}`}, dependsOnRule},
		{"a remark of iptables", "drop", []string{rule(ourPort, `{"xt": {"type": "match", "name": "comment"}}`, toAccept)}, pass},
		{"iptables rejects", "accept", []string{`{"xt": {"type": "target", "name": "REJECT"}}`}, byRule},
		{"a program decides", "accept", []string{`{"queue": {"num": 0}}`}, dependsOnRule},
		{"a chain that there is not", "drop", []string{`{"jump": {"target": "nowhere"}}`}, depends},
		{"a chain that leads to itself", "drop", []string{`{"jump": {"target": "input"}}`, rule(ourPort, toAccept)}, dependsOnRule},
		{"rubbish", "drop", []string{`{"match": 7}, {"vmap": []}, {"accept": null}`}, depends},
		{"rubbish in a map", "drop", []string{`{"vmap": {"key": 7, "data": {"set": [7, [1], [1, 2], [{"a": 1}, {"accept": 7}]]}}}`}, depends},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			f.tools["nft -j list ruleset"] = nftDoc("inet", "filter", "input", c.policy, c.rules...)
			f.check("firewall", c.want)
		})
	}
}

func TestOnlyChainsThatSeeOurPacketsCount(t *testing.T) {
	for _, c := range []struct{ family, chain string }{{"ip6", "input"}, {"arp", "input"}, {"bridge", "input"}, {"ip", "forward"}, {"inet", "prerouting"}, {"netdev", "ingress"}} {
		f := healthy(t)
		f.tools["nft -j list ruleset"] = nftDoc(c.family, "filter", c.chain, "drop")
		f.check("firewall", "ok UDP 4791: no rule keeps it out")
	}
	f := healthy(t)
	f.tools["nft -j list ruleset"] = nftDoc("ip", "mine", "output", "drop")
	f.check("firewall", "problem table ip mine, chain output: packets of srptd's to UDP port 4791 do not pass: its policy is drop -> "+
		"nft insert rule ip mine output udp dport 4791 accept, and keep it in /etc/nftables.conf")
	// With an IPv6 address to serve, IPv6 counts, and one table of both is told once.
	f = healthy(t)
	f.cfg.Listen = append(f.cfg.Listen, netip.MustParseAddr("fe80::2%eth0"))
	f.tools["nft -j list ruleset"] = nftDoc("ip6", "filter", "input", "drop")
	f.check("firewall", "problem table ip6 filter, chain input: packets to UDP port 4791 do not pass: its policy is drop -> "+
		"nft insert rule ip6 filter input udp dport 4791 accept, and keep it in /etc/nftables.conf")
	f.tools["nft -j list ruleset"] = nftDoc("inet", "firewalld", "input", "drop")
	f.check("firewall", "problem table inet firewalld, chain input: packets to UDP port 4791 do not pass: its policy is drop -> "+
		"firewall-cmd --permanent --add-port=4791/udp && firewall-cmd --reload")
}

// The files are what nft 1.0.6 and iptables 1.8.9 print.
func recorded(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRecordedRulesetIsUnderstood(t *testing.T) {
	f := healthy(t)
	// eth0 goes by set, map and goto to the chain that accepts all but eth9.
	f.tools["nft -j list ruleset"] = recorded(t, "nft.json")
	f.check("firewall", "ok UDP 4791: no rule keeps it out")
	f.links[1].Name = "eth9"
	f.check("firewall", "warning table inet filter, chain input: it depends on more than the port whether packets to UDP port 4791 pass (a rule drops them); "+
		"see that initiators' do -> nft insert rule inet filter input udp dport 4791 accept, and keep it in /etc/nftables.conf")
}

func TestIptablesAreReadByTheirOwnTool(t *testing.T) {
	const chain = " table ip filter, chain INPUT: "
	const pass = "ok UDP 4791: no rule keeps it out"
	const byPolicy = "problem" + chain + "packets to UDP port 4791 do not pass: its policy is drop -> iptables -I INPUT -p udp --dport 4791 -j ACCEPT"
	const byRule = "problem" + chain + "packets to UDP port 4791 do not pass: a rule drops them -> iptables -I INPUT -p udp --dport 4791 -j ACCEPT"
	const depends = "warning" + chain + "it depends on more than the port whether packets to UDP port 4791 pass (its policy is drop); see that initiators' do" +
		" -> iptables -I INPUT -p udp --dport 4791 -j ACCEPT"
	for _, c := range []struct {
		name, policy string
		rules        []string
		want         string
	}{
		{"nothing", "ACCEPT", nil, pass},
		{"nothing accepts", "DROP", nil, byPolicy},
		{"the port", "DROP", []string{"-A INPUT -p udp -m udp --dport 4791 -m comment --comment \"a \\\" -j DROP b\" -j ACCEPT"}, pass},
		{"ports", "DROP", []string{"-A INPUT -p udp -m multiport --dports 1,4700:4800 -j ACCEPT"}, pass},
		{"other ports", "DROP", []string{"-A INPUT -p udp -m multiport --dports 1,4800:4900 -j ACCEPT"}, byPolicy},
		{"no port", "DROP", []string{"-A INPUT -p udp --dport roce -j ACCEPT"}, depends},
		{"all but a port", "DROP", []string{"-A INPUT -p udp ! --dport 53 -j ACCEPT"}, pass},
		{"another transport", "DROP", []string{"-A INPUT -p tcp --dport 4791 -j ACCEPT"}, byPolicy},
		{"our interface", "DROP", []string{"-A INPUT -i eth+ -j ACCEPT"}, pass},
		{"not our interface", "DROP", []string{"-A INPUT ! -i eth0 -j ACCEPT", "-A INPUT -o eth0 -j ACCEPT"}, byPolicy},
		{"known flows", "DROP", []string{"-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}, byPolicy},
		{"new flows", "DROP", []string{"-A INPUT -m state --state NEW -j ACCEPT"}, pass},
		{"some sources", "DROP", []string{"-A INPUT -s 10.0.0.0/8 -j ACCEPT"}, depends},
		{"a rule that rejects at the end", "ACCEPT", []string{"-A INPUT -j LOG --log-prefix \"x y\"", "-A INPUT -j REJECT --reject-with icmp-host-prohibited"}, byRule},
		{"a chain that accepts", "DROP", []string{"-A INPUT -j MINE", "-A MINE -p udp --dport 4791 -j ACCEPT"}, pass},
		{"a chain that returns", "DROP", []string{"-A INPUT -j MINE", "-A MINE -j RETURN", "-A MINE -j ACCEPT"}, byPolicy},
		{"a chain that is gone to", "DROP", []string{"-A INPUT -g MINE", "-A INPUT -j ACCEPT"}, byPolicy},
		{"rubbish", "DROP", []string{"-A", "-A INPUT !", "-A INPUT -j", "-A NOWHERE -j ACCEPT", "-A INPUT -p udp --dport \"4791 -j ACCEPT"}, depends},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			f.put("/proc/net/ip_tables_names", "")
			f.tools["iptables-save"] = "# Generated by iptables-save v1.8.9 on x\n*mangle\n:INPUT DROP [0:0]\nCOMMIT\n*filter\n:INPUT " + c.policy + " [0:0]\n:MINE - [0:0]\n" +
				strings.Join(c.rules, "\n") + "\nCOMMIT\n"
			f.check("firewall", c.want)
		})
	}
}

// Rules of iptables in nft's tables are told once, by the tool that reads all of them, with a command of who made them.
func TestIptablesOverNftAreToldOnce(t *testing.T) {
	f := healthy(t)
	f.put("/sys/module/nft_compat/refcnt", "1")
	f.tools["nft -j list ruleset"] = nftDoc("ip", "filter", "INPUT", "drop")
	f.tools["iptables-save"] = recorded(t, "iptables.txt")
	f.check("firewall", "ok UDP 4791: no rule keeps it out")
	f.tools["iptables-save"] = strings.ReplaceAll(recorded(t, "iptables.txt"), "4791", "4792")
	f.tools["iptables-save"] = strings.ReplaceAll(f.tools["iptables-save"], "4700:4800", "1")
	f.check("firewall", "problem table ip filter, chain INPUT: packets to UDP port 4791 do not pass: a rule drops them -> ufw allow 4791/udp")
	delete(f.tools, "iptables-save")
	f.check("firewall", "problem table ip filter, chain INPUT: packets to UDP port 4791 do not pass: its policy is drop -> iptables -I INPUT -p udp --dport 4791 -j ACCEPT")
}

func TestRulesThatCannotBeReadAreNotCalledGood(t *testing.T) {
	f := healthy(t)
	f.UID = 1000
	f.check("firewall", "not checked UDP 4791: the rules cannot be read without root -> sudo srptctl doctor")
	f = healthy(t)
	clear(f.tools)
	f.check("firewall", "not checked nftables: nft, which reads the rules, is not installed -> install nftables (nft), and look again")
	f.put("/proc/net/ip6_tables_names", "")
	f.tools["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
	f.check("firewall", "not checked nftables: nft, which reads the rules, is not installed -> install nftables (nft), and look again",
		"ok UDP 4791: no rule keeps it out")
	f = healthy(t)
	f.put("/proc/net/ip_tables_names", "")
	f.Output = func(_ context.Context, name string, _ ...string) ([]byte, error) {
		if name == "ip6tables-save" {
			return nil, exec.ErrNotFound
		}
		return nil, errors.New(name + " exploded")
	}
	f.check("firewall", "not checked nftables: the rules cannot be read: nft exploded", "not checked iptables-save: the rules cannot be read: iptables-save exploded")
	f = healthy(t)
	f.tools["nft -j list ruleset"] = "oops"
	f.check("firewall", "not checked nftables: the rules are not understood: nft -j list ruleset: invalid character 'o' looking for beginning of value")
}

// Whatever a tool prints, the examination comes to an end.
func FuzzFirewall(f *testing.F) {
	for _, name := range []string{"nft.json", "iptables.txt"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(nftDoc("inet", "filter", "input", "drop", portVmap, named, `{"goto": {"target": "input"}}`)))
	f.Add([]byte("*filter\n:INPUT DROP [0:0]\n:A - [0:0]\n-A INPUT -j A\n-A A -g INPUT\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, p := range []packet{{links: []string{"eth0"}}, {v6: true, out: true, links: []string{"eth0", "eth1"}}} {
			tables, _ := parseNft(doc, p)
			for _, r := range append(tables, parseIptables(string(doc), p)...) {
				for name := range r.chains {
					if fate, _ := r.judge(name); fate&(accepted|dropped) == 0 {
						t.Errorf("chain %q: nothing becomes of a packet", name)
					}
				}
			}
		}
	})
}
