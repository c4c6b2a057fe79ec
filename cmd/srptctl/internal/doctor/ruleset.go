package doctor

import "strings"

// packet is the one that a firewall is asked about: to UDP port 4791, of a flow that is not known yet. What a peer sends
// comes from another port than our packets go to, so that connection tracking takes nothing for an answer.
type packet struct {
	v6, out bool
	// links are the interfaces that it may come or go by.
	links []string
}

// answer tells whether a packet matches; maybe, if that depends on what is not known of it.
type answer uint8

const (
	no answer = iota
	maybe
	yes
)

// verdict is what a rule does to a packet.
type verdict uint8

const (
	next verdict = iota // nothing
	accept
	drop
	jump
	goTo
	ret
)

// branch is what a rule does if it matches. Of the branches of one rule a packet takes one.
type branch struct {
	match   answer
	verdict verdict
	target  string
}

// chain is a list of rules. A base chain is where the kernel begins, and has a policy.
type chain struct {
	base   bool
	policy verdict
	rules  [][]branch
}

// ruleset is a table of chains.
type ruleset struct {
	// family and name are the table's.
	family, name string
	chains       map[string]*chain
	fates        map[string]fate
}

// fate is a set of what may become of a packet.
type fate uint8

const (
	accepted fate = 1 << iota
	dropped
	// left: it comes to the chain's end, or returns.
	left
)

// anything is the fate in a chain that is not known, or that leads to itself.
const anything = accepted | dropped | left

// through is what may become of a packet in a chain. Each chain is walked once, however often rules lead there.
func (r *ruleset) through(name string) fate {
	if f, known := r.fates[name]; known {
		return f
	}
	c := r.chains[name]
	if c == nil {
		return anything
	}
	r.fates[name] = anything // while it is walked
	f := r.walk(c)
	r.fates[name] = f
	return f
}

func (r *ruleset) walk(c *chain) (f fate) {
	for _, branches := range c.rules {
		for _, b := range branches {
			if b.match == no {
				continue
			}
			end, goesOn := r.effect(b)
			f |= end
			if b.match == maybe {
				continue
			}
			if !goesOn {
				return f
			}
			break
		}
	}
	return f | left
}

// effect is how a branch ends the way through its chain, and whether it may go on to the next rule.
func (r *ruleset) effect(b branch) (end fate, goesOn bool) {
	switch b.verdict {
	case accept:
		return accepted, false
	case drop:
		return dropped, false
	case ret:
		return left, false
	case goTo:
		return r.through(b.target), false
	case jump:
		f := r.through(b.target)
		return f &^ left, f&left != 0
	}
	return 0, true
}

// judge is what a base chain does to the packet. byPolicy tells that it may come to the end, where the policy drops it.
func (r *ruleset) judge(name string) (f fate, byPolicy bool) {
	c := r.chains[name]
	f = r.through(name)
	if f&left == 0 {
		return f, false
	}
	if c.policy == drop {
		return f&^left | dropped, true
	}
	return f&^left | accepted, false
}

// linkMatch tells whether the packet comes or goes by an interface; its name may end in a star.
func (p *packet) linkMatch(name string) answer {
	n := 0
	prefix, star := strings.CutSuffix(name, "*")
	for _, l := range p.links {
		if l == name || star && strings.HasPrefix(l, prefix) {
			n++
		}
	}
	switch {
	case len(p.links) == 0:
		return maybe
	case n == len(p.links):
		return yes
	case n == 0:
		return no
	}
	return maybe
}

func sure(b bool) answer {
	if b {
		return yes
	}
	return no
}

func not(a answer) answer { return yes - a }

// either is the better of two answers.
func either(a, b answer) answer { return max(a, b) }
