package lab

import (
	"fmt"
	"path"
	"strings"
)

// moduleTable is the kernel's modules.dep: a module's file to the files it depends on, nearest first.
type moduleTable map[string][]string

// parseModules reads modules.dep: "kernel/a.ko: kernel/b.ko kernel/c.ko" a line.
func parseModules(text string) moduleTable {
	t := moduleTable{}
	for line := range strings.Lines(text) {
		file, deps, ok := strings.Cut(line, ":")
		if ok {
			t[file] = strings.Fields(deps)
		}
	}
	return t
}

// moduleName is the name a module's file is asked for by; "-" and "_" are the same to the kernel.
func moduleName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// closure lists the files of the named modules and of all that they depend on, each once, in an order they can be loaded in.
func (t moduleTable) closure(names []string) ([]string, error) {
	byName := make(map[string]string, len(t))
	for file := range t {
		byName[moduleName(file)] = file
	}
	var order []string
	seen := map[string]bool{}
	add := func(file string) {
		if !seen[file] {
			seen[file] = true
			order = append(order, file)
		}
	}
	for _, name := range names {
		file, ok := byName[moduleName(name)]
		if !ok {
			return nil, fmt.Errorf("lab: the guest's kernel has no module %s", name)
		}
		deps := t[file]
		for i := len(deps) - 1; i >= 0; i-- {
			add(deps[i])
		}
		add(file)
	}
	return order, nil
}
