package config

import (
	"fmt"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	// Where is the key, with the line of the file if it is known, such as "luns[0].lun (line 7)".
	Where string
	// What says what is wrong and how to mend it.
	What string
}

// Error is every problem of a configuration.
type Error struct {
	// File is the file that was read; empty if none.
	File     string
	Problems []Problem
}

// Error lists the problems, one a line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "configuration %s has %d problem(s):", e.File, len(e.Problems))
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s: %s", p.Where, p.What)
	}
	return b.String()
}

// problems collects.
type problems []Problem

func (p *problems) add(where, format string, args ...any) {
	*p = append(*p, Problem{where, fmt.Sprintf(format, args...)})
}
