package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readCpio lists an archive's entries as "MODE NAME BODY", and fails on anything that the format does not allow.
func readCpio(t *testing.T, b []byte) []string {
	t.Helper()
	var entries []string
	field := func(at, n int) int {
		v, err := strconv.ParseUint(string(b[at+6+8*n:at+14+8*n]), 16, 32)
		if err != nil {
			t.Fatalf("entry at %d: %v", at, err)
		}
		return int(v)
	}
	up4 := func(n int) int { return (n + 3) &^ 3 }
	for at := 0; at < len(b); {
		if string(b[at:at+6]) != "070701" {
			t.Fatalf("no entry at %d", at)
		}
		mode, size, nameSize := field(at, 1), field(at, 6), field(at, 11)
		name := string(b[at+110 : at+110+nameSize-1])
		body := up4(at + 110 + nameSize)
		entries = append(entries, fmt.Sprintf("%o %s %s", mode, name, b[body:body+size]))
		at = up4(body + size)
	}
	return entries
}

func TestInitrdHoldsWhatItsFirstProgramNeeds(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{"busybox": "BB", "a.ko": "module a", "b.ko": "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := writeInitrd(&out, filepath.Join(dir, "busybox"), dir, []string{"b.ko", "a.ko"}); err != nil {
		t.Fatal(err)
	}
	first, err := recipe.ReadFile("scripts/initrd-init")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"40755 bin ", "40755 dev ", "40755 modules ", "40755 root ", "100755 init " + string(first), "100755 bin/busybox BB",
		"100644 modules/00-b.ko b", "100644 modules/01-a.ko module a", "0 TRAILER!!! ",
	}
	if diff := cmp.Diff(want, readCpio(t, out.Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestInitrdWithoutAModuleIsAnError(t *testing.T) {
	if err := writeInitrd(&bytes.Buffer{}, "/dev/null", t.TempDir(), []string{"missing.ko"}); err == nil {
		t.Error("no error")
	}
}
