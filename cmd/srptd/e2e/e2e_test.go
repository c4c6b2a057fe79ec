package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLayOutGivesTheJobItsScriptLibraryAndPrograms(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "srptd"), []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := layOut(dir, Job{Script: "filesystems", Bin: bin}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"job.sh", "lib/lib.sh", "lib/report.sh", "bin/srptd"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s: %v, %v; want an executable file", name, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "out")); err != nil || !info.IsDir() {
		t.Errorf("out: %v, want a directory", err)
	}
}

func TestLayOutRefusesAnUnknownJob(t *testing.T) {
	if err := layOut(t.TempDir(), Job{Script: "no-such-job"}); err == nil {
		t.Error("no error")
	}
}
