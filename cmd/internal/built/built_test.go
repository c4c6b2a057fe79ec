package built

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What is read from an executable is what it says itself.
func TestExecutableTellsWhetherItWasBuiltWithVerbs(t *testing.T) {
	for tags, want := range map[string]string{"": "RDMA providers: roce (built without verbs)", "verbs": "RDMA providers: roce, verbs", "other verbs": "RDMA providers: roce, verbs"} {
		exe := filepath.Join(t.TempDir(), "program")
		cmd := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", exe, "./testdata/program")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		says, err := exec.Command(exe).Output()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Of(exe)
		if want = runtime.Version() + ", " + want; err != nil || string(says) != want || read.String() != want {
			t.Errorf("tags %q: it says %q, %q was read, %v; want %q", tags, says, read, err, want)
		}
	}
}

func TestWhatIsNoExecutableIsAnError(t *testing.T) {
	if _, err := Of("built.go"); err == nil {
		t.Error("a text was built")
	}
	if _, err := Of(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if s := Own("v1").String(); !strings.HasPrefix(s, "v1, "+runtime.Version()+", RDMA providers: roce") {
		t.Error(s)
	}
}
