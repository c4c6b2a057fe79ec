package auth

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Validate returns an error that says how d breaks the contract, or nil. The SDK and the host call it; an answer that
// it refuses counts as none.
func (d *Decision) Validate() error {
	if err := checkLine("reason", d.Reason, MaxReason); err != nil {
		return err
	}
	if !d.Allow {
		return nil
	}
	switch q := d.Quota; {
	case d.AllLUNs && len(d.LUNs) > 0:
		return fmt.Errorf("auth: a decision shows all LUNs and lists %d", len(d.LUNs))
	case q.Channels < 0, q.QueueDepth < 0, q.QueueDepth == 1:
		return fmt.Errorf("auth: a quota of %d channels and %d commands cannot be", q.Channels, q.QueueDepth)
	}
	return checkLUNs(d.LUNs)
}

// checkLUNs lets a number and a name come once only: one logical unit has one number in a nexus.
func checkLUNs(luns []LUN) error {
	numbers, names := make(map[uint16]bool, len(luns)), make(map[string]bool, len(luns))
	for _, l := range luns {
		switch {
		case l.LUN > MaxLUN:
			return fmt.Errorf("auth: LUN %d; at most %d can be", l.LUN, MaxLUN)
		case l.Name == "":
			return fmt.Errorf("auth: LUN %d has no name", l.LUN)
		case numbers[l.LUN]:
			return fmt.Errorf("auth: LUN %d is listed twice", l.LUN)
		case names[l.Name]:
			return fmt.Errorf("auth: the logical unit %q is listed twice", l.Name)
		}
		if err := checkLine("name", l.Name, MaxName); err != nil {
			return err
		}
		numbers[l.LUN], names[l.Name] = true, true
	}
	return nil
}

// Validate returns an error that says how c breaks the contract, or nil.
func (c *Change) Validate() error {
	if c.Revoke && len(c.Initiators) == 0 {
		return fmt.Errorf("auth: a revocation names no initiator")
	}
	return checkLine("reason", c.Reason, MaxReason)
}

// checkLine refuses what would break a line of a log.
func checkLine(what, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("auth: a %s of %d bytes; at most %d can be", what, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("auth: a %s is not UTF-8", what)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("auth: the %s %q has control characters", what, s)
	}
	return nil
}
