package launcher

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

func TestMain(m *testing.M) {
	Run()
	os.Exit(m.Run())
}

// launched starts this program as a launcher.
func launched(t *testing.T, arg string) (isolation.Failure, string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out strings.Builder
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{isolation.Name, arg, "-c", "echo done"}, Stdout: &out, ExtraFiles: []*os.File{null, w}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var f isolation.Failure
	said, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) > 0 {
		if err := json.Unmarshal(said, &f); err != nil {
			t.Fatalf("%q: %v", said, err)
		}
	}
	err = cmd.Wait()
	return f, out.String(), err
}

func encode(t *testing.T, l isolation.Launch) string {
	t.Helper()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLauncherBecomesTheProgramOrSaysWhyNot(t *testing.T) {
	sh := isolation.Launch{Path: "/bin/sh", Private: t.TempDir(), Parent: os.Getpid()}
	for name, c := range map[string]struct {
		change func(*isolation.Launch)
		want   string
		exec   int
	}{
		"plain":      {func(*isolation.Launch) {}, "", 0},
		"restricted": {func(l *isolation.Launch) { l.Files = &isolation.Files{}; l.Deny = isolation.PluginProfile() }, "", 0},
		"no parent":  {func(l *isolation.Launch) { l.Parent = os.Getpid() + 1 }, "cannot tie the process to its host: the host has died", 0},
		"bad limit":  {func(l *isolation.Launch) { l.Limits = []isolation.Limit{{Name: "odd", Resource: 999}} }, "resource limits: odd to 0: invalid argument (errno 22); ", 0},
		"no path":    {func(l *isolation.Launch) { l.Files = &isolation.Files{ReadWrite: []string{"/no/such/dir/file"}} }, "cannot prepare Landlock", 0},
		"no program": {func(l *isolation.Launch) { l.Path = "/no/such/program" }, "execute", int(unix.ENOENT)},
	} {
		l := sh
		c.change(&l)
		f, out, err := launched(t, encode(t, l))
		if c.want == "" {
			if f.Text != "" || out != "done\n" || err != nil {
				t.Errorf("%s: %+v, %q, %v", name, f, out, err)
			}
			continue
		}
		if !strings.Contains(f.Text, c.want) || f.Exec != c.exec || out != "" || err == nil {
			t.Errorf("%s: %+v, %q, %v", name, f, out, err)
		}
	}
	if f, _, err := launched(t, "{"); f.Text == "" || err == nil {
		t.Errorf("nonsense: %+v, %v", f, err)
	}
}
