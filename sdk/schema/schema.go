package schema

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Describer is implemented by what a plugin's main serves.
type Describer interface {
	// Describe says what the plugin is. It has no effect and does not block.
	Describe() Description
}

// Description is what a plugin says about itself.
type Description struct {
	// Name is the plugin's, such as "file"; Version is its own, such as "1.2.0".
	Name, Version string
	// Summary is one line for the operator.
	Summary string
	// Settings are the keys that Open takes, and no others.
	Settings Schema
}

// Schema lists settings.
type Schema []Setting

// Setting is one key of a configuration.
type Setting struct {
	// Key is unique in its Schema: lower case letters, digits and _.
	Key string
	// Kind is what its value must be.
	Kind Kind
	// Help is one line for the operator, with units.
	Help string
	// Default is what holds if the key is not set; empty if that means something of its own.
	Default string
	// Required settings have no default.
	Required bool
	// Choices are the values of a KindChoice.
	Choices []string
	// Min and Max bound a KindNumber, and a KindSize in bytes. Both 0 means that there is no bound.
	Min, Max int64
	// Secret values are not shown to anybody.
	Secret bool
}

// Kind is a kind of value.
type Kind uint8

// The kinds.
const (
	// KindText is any text.
	KindText Kind = iota
	// KindNumber is a whole number in decimal.
	KindNumber
	// KindSize is a size in bytes: a number, alone or with KiB, MiB, GiB, TiB, or kB, MB, GB, TB for powers of ten.
	KindSize
	// KindBool is true or false.
	KindBool
	// KindDuration is what time.ParseDuration takes and is not negative, such as 30s.
	KindDuration
	// KindPath is the absolute path of a file, which need not exist.
	KindPath
	// KindChoice is one of Setting.Choices.
	KindChoice
)

var kindNames = [...]string{"text", "number", "size", "true or false", "duration", "path", "choice"}

// String names the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// ParseSize parses what a KindSize takes.
func ParseSize(s string) (int64, bool) {
	digits := strings.TrimRight(s, "kKMGTiB ")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	units := map[string]uint64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if !ok || n > math.MaxInt64/unit {
		return 0, false
	}
	return int64(n * unit), true
}

// problem says why a value is not one of the setting's, or "".
func (s *Setting) problem(v string) string {
	switch s.Kind {
	case KindNumber:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return "is not a whole number"
		}
		return s.outside(n)
	case KindSize:
		n, ok := ParseSize(v)
		if !ok {
			return "is not a size such as 64MiB"
		}
		return s.outside(n)
	case KindBool:
		if _, err := strconv.ParseBool(v); err != nil {
			return "is neither true nor false"
		}
	case KindDuration:
		if d, err := time.ParseDuration(v); err != nil || d < 0 {
			return "is not a duration such as 30s"
		}
	case KindPath:
		if !strings.HasPrefix(v, "/") || strings.ContainsRune(v, 0) {
			return "is not an absolute path"
		}
	case KindChoice:
		for _, c := range s.Choices {
			if v == c {
				return ""
			}
		}
		return "is none of " + strings.Join(s.Choices, ", ")
	}
	return ""
}

func (s *Setting) outside(n int64) string {
	if (s.Min != 0 || s.Max != 0) && (n < s.Min || n > s.Max) {
		return "is not in " + strconv.FormatInt(s.Min, 10) + ".." + strconv.FormatInt(s.Max, 10)
	}
	return ""
}
