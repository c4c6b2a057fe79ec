package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Count is how many findings are of a level.
func Count(list []Finding, l Level) int {
	n := 0
	for _, f := range list {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Write writes the findings as text, what mends each under it, and their number.
func Write(w io.Writer, list []Finding) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range list {
		fmt.Fprintf(tw, "%v\t%s\t%s\t%s\n", f.Level, f.Check, f.Subject, f.What)
		if f.Mend != "" {
			fmt.Fprintf(tw, "\t\t\t-> %s\n", f.Mend)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s, %s, %d ok, %d not checked\n", Plural(Count(list, Problem), "problem"),
		Plural(Count(list, Warning), "warning"), Count(list, OK), Count(list, NotChecked))
	return err
}

// Plural is 1 problem, 2 problems.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxText bounds what is printed of a name or a message that somebody else chose, in bytes.
const maxText = 600

// printable makes one line of what others wrote: names of processes and interfaces, messages of tools.
func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	s = strings.TrimSpace(strings.ReplaceAll(s, "\n", "; "))
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
