package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTargetsAreChosenByName(t *testing.T) {
	for names, want := range map[string]string{"": "LIO verbs verbs-null roce", "roce LIO": "LIO roce", "verbs": "verbs"} {
		chosen, err := choose(names)
		var got []string
		for _, c := range chosen {
			got = append(got, c.name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v", names, got, err)
		}
	}
	if _, err := choose("LIO scst"); err == nil || !strings.Contains(err.Error(), "scst") {
		t.Errorf("a target that there is not: %v", err)
	}
}

func TestLibrariesOfAProgram(t *testing.T) {
	const ldd = "\tlinux-vdso.so.1 (0x7f42)\n\tlibelf.so.1 => /lib/libelf.so.1 (0x7f43)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f44)\n\t/lib64/ld.so.2 (0x7f45)\n"
	paths, err := libraries([]byte(ldd))
	if want := []string{"/lib/libelf.so.1", "/lib/libc.so.6"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("%v, %v, want %v", paths, err, want)
	}
	if _, err := libraries([]byte("\tlibelf.so.1 => not found\n")); err == nil {
		t.Error("a library that there is not: no error")
	}
}
