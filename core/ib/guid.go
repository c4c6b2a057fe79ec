package ib

import (
	"fmt"
	"strconv"
	"strings"
)

// GUID is a globally unique 64-bit identifier of a node, port or I/O controller (IBTA 4.1).
type GUID uint64

// ParseGUID reads 16 hexadecimal digits, plain ("0002c90300a1b2c3"), after "0x", or in four groups
// as the kernel prints them ("0002:c903:00a1:b2c3"). Errors wrap ErrSyntax.
func ParseGUID(s string) (GUID, error) {
	digits := strings.TrimPrefix(s, "0x")
	if len(s) == 19 && s[4] == ':' && s[9] == ':' && s[14] == ':' {
		digits = s[:4] + s[5:9] + s[10:14] + s[15:]
	}
	if len(digits) != 16 {
		return 0, syntaxError("GUID", s)
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, syntaxError("GUID", s)
	}
	return GUID(v), nil
}

// EUI64 makes a GUID of an Ethernet address: the universal/local bit inverted, FF FE in the middle
// (RFC 4291 appendix A).
func EUI64(mac [6]byte) GUID {
	return GUID(uint64(mac[0]^2)<<56 | uint64(mac[1])<<48 | uint64(mac[2])<<40 | 0xFFFE<<24 |
		uint64(mac[3])<<16 | uint64(mac[4])<<8 | uint64(mac[5]))
}

// String is 16 hexadecimal digits, the form that ib_srp's add_target takes.
func (g GUID) String() string { return fmt.Sprintf("%016x", uint64(g)) }
