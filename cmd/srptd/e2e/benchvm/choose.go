package main

import (
	"fmt"
	"slices"
	"strings"
)

// choose returns the targets of a list of names, in the order of the table; no names are all.
func choose(names string) ([]target, error) {
	wanted := strings.Fields(names)
	if len(wanted) == 0 {
		return targets, nil
	}
	var chosen, known = []target{}, []string{}
	for _, t := range targets {
		known = append(known, t.name)
		if slices.Contains(wanted, t.name) {
			chosen = append(chosen, t)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no target %q, but %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
