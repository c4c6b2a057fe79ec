// Package built tells what a program was built with.
package built

import (
	"debug/buildinfo"
	"runtime"
	"slices"
	"strings"
)

// Info is what a program was built with.
type Info struct {
	// Version is empty if it is not known.
	Version string
	// Go is the version of the compiler.
	Go string
	// Verbs tells whether it was built with the tag verbs, and so with rdma-core's libraries.
	Verbs bool
}

// Own is what this program was built with; version is its own.
func Own(version string) Info { return Info{Version: version, Go: runtime.Version(), Verbs: verbs} }

// Of reads it from an executable, its version excepted.
func Of(path string) (Info, error) {
	b, err := buildinfo.ReadFile(path)
	if err != nil {
		return Info{}, err
	}
	i := Info{Go: b.GoVersion}
	for _, s := range b.Settings {
		if s.Key == "-tags" {
			i.Verbs = slices.Contains(strings.Split(s.Value, ","), "verbs")
		}
	}
	return i, nil
}

// String is all of it, for the operator.
func (i Info) String() string {
	s := i.Go + ", RDMA providers: roce"
	if i.Verbs {
		s += ", verbs"
	} else {
		s += " (built without verbs)"
	}
	if i.Version == "" {
		return s
	}
	return i.Version + ", " + s
}
