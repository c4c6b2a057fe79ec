package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error lists everything that is wrong with a configuration.
type Error struct {
	// Problems are lines such as `size: "x" is not a size such as 64MiB`, in the order of the keys.
	Problems []string
}

// Error joins the problems.
func (e *Error) Error() string { return strings.Join(e.Problems, "; ") }

// Values are a configuration that has passed the check, defaults filled in.
type Values struct {
	schema Schema
	text   map[string]string
}

// Read checks a configuration. The error is an *Error.
func (s Schema) Read(config map[string]string) (Values, error) {
	v := Values{schema: s, text: map[string]string{}}
	var e Error
	for i := range s {
		set := &s[i]
		text, given := config[set.Key]
		switch {
		case given:
			if why := set.problem(text); why != "" {
				e.Problems = append(e.Problems, set.Key+": "+set.quote(text)+" "+why)
			}
		case set.Required:
			e.Problems = append(e.Problems, set.Key+": must be set: "+set.Help)
		default:
			text = set.Default
		}
		v.text[set.Key] = text
	}
	e.Problems = append(e.Problems, s.unknown(config)...)
	if e.Problems != nil {
		slices.Sort(e.Problems)
		return Values{}, &e
	}
	return v, nil
}

func (s *Setting) quote(v string) string {
	if s.Secret {
		return "the value"
	}
	return strconv.Quote(v)
}

func (s Schema) unknown(config map[string]string) []string {
	var out []string
	for key := range config {
		if s.find(key) == nil {
			out = append(out, fmt.Sprintf("%s: no such setting; there are %s", key, strings.Join(s.keys(), ", ")))
		}
	}
	return out
}

func (s Schema) find(key string) *Setting {
	for i := range s {
		if s[i].Key == key {
			return &s[i]
		}
	}
	return nil
}

func (s Schema) keys() []string {
	keys := make([]string, len(s))
	for i := range s {
		keys[i] = s[i].Key
	}
	return keys
}

// Check says what is wrong with the schema itself: a key that is empty, used twice or of other characters, a choice without
// choices, a default that its own setting refuses, bounds the wrong way round. The error is an *Error.
func (s Schema) Check() error {
	var e Error
	for i := range s {
		set := &s[i]
		add := func(why string) { e.Problems = append(e.Problems, fmt.Sprintf("setting %q: %s", set.Key, why)) }
		switch {
		case !validKey(set.Key):
			add("a key has lower case letters, digits and _")
		case s.find(set.Key) != set:
			add("is declared twice")
		case set.Kind == KindChoice && len(set.Choices) == 0:
			add("has no choices")
		case set.Min > set.Max:
			add("its least value is above its greatest")
		case set.Required && set.Default != "":
			add("is required and has a default")
		case set.Default != "" && set.problem(set.Default) != "":
			add("its default " + strconv.Quote(set.Default) + " " + set.problem(set.Default))
		}
	}
	if e.Problems != nil {
		return &e
	}
	return nil
}

func validKey(k string) bool {
	return k != "" && len(k) <= 64 && !strings.ContainsFunc(k, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// get returns the text of a key. Asking for a key, or as a kind, that the schema does not have is a mistake in the program.
func (v Values) get(key string, kinds ...Kind) string {
	set := v.schema.find(key)
	if set == nil || !slices.Contains(kinds, set.Kind) {
		panic("schema: " + key + " is not a setting of this kind")
	}
	return v.text[key]
}

// Text returns a text, a path or a choice.
func (v Values) Text(key string) string { return v.get(key, KindText, KindPath, KindChoice) }

// Number returns a whole number; 0 if it is not set and has no default.
func (v Values) Number(key string) int64 {
	n, _ := strconv.ParseInt(v.get(key, KindNumber), 10, 64)
	return n
}

// Size returns a size in bytes; 0 if it is not set and has no default.
func (v Values) Size(key string) int64 {
	n, _ := ParseSize(v.get(key, KindSize))
	return n
}

// Bool returns a truth value; false if it is not set and has no default.
func (v Values) Bool(key string) bool {
	b, _ := strconv.ParseBool(v.get(key, KindBool))
	return b
}

// Duration returns a duration; 0 if it is not set and has no default.
func (v Values) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(v.get(key, KindDuration))
	return d
}
