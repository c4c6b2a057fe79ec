package pluginhost

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestCatalogueTakesWhatSha256sumPrints(t *testing.T) {
	one, two := sum(sha256.Sum256([]byte("1"))), sum(sha256.Sum256([]byte("2")))
	text := fmt.Sprintf("# plugins\n\n%s  file\n%s *auth\n%s  file\n%s  two words\n", one, two, two, strings.ToUpper(one.String()))
	got, err := parseCatalogue([]byte(text))
	if err != nil || len(got) != 3 || got["file"] != two || got["auth"] != two || got["two words"] != one {
		t.Errorf("%v, %v", got, err)
	}
	for line, want := range map[string]string{
		"abc  file":                        "64 hexadecimal digits",
		one.String():                       "64 hexadecimal digits",
		one.String() + " ":                 "64 hexadecimal digits", // trailing spaces are nothing
		one.String() + " file":             "two spaces",
		one.String() + "  ../file":         "no name of a file",
		one.String() + "  /bin/sh":         "no name of a file",
		one.String() + "  ..":              "no name of a file",
		strings.Repeat("z", 64) + "  file": "no SHA-256 sum",
		`\` + one.String() + "  a\\nb":     "64 hexadecimal digits",
	} {
		if _, err := parseCatalogue([]byte("\n" + line + "\n")); err == nil || !strings.HasPrefix(err.Error(), "2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want line 2 and %q", line, err, want)
		}
	}
}

func FuzzCatalogue(f *testing.F) {
	f.Add([]byte(strings.Repeat("0", 64) + "  file\n# no\n"))
	f.Add([]byte(strings.Repeat("f", 64) + " *a\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sums, err := parseCatalogue(text)
		if err != nil {
			return
		}
		for name := range sums {
			if name != filepath.Base(name) || name == "." || name == ".." {
				t.Errorf("a name is %q", name)
			}
		}
	})
}

func list(t *testing.T, dir, name, text string) {
	t.Helper()
	line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name)
	f, err := os.OpenFile(filepath.Join(dir, catalogueName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// age makes a file old enough for its sum to be remembered.
func age(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(st.ModTime().Add(settled + 50*time.Millisecond))) // its ctime cannot be set
}

const script = "#!/bin/sh\n" // what put writes

func TestOnlyWhatIsCataloguedIsVetted(t *testing.T) {
	dir, real := t.TempDir(), t.TempDir()
	log := hclog.NewNullLogger()
	a := put(t, dir, "a", 0o755)
	if v, err := vet(kindBackstore, a, nil, log); err != nil || v.launch.File != nil {
		t.Fatalf("without a catalogue: %v, %v", v, err)
	}
	put(t, dir, "b", 0o755)
	put(t, real, "c", 0o755)
	if err := os.Symlink(filepath.Join(real, "c"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	list(t, dir, "b", "something else")
	list(t, dir, "a", script)
	list(t, dir, "linked", script)
	for name, want := range map[string][]string{
		"a": nil, "linked": nil,
		"b":                {"has the SHA-256 sum", fmt.Sprintf("%x", sha256.Sum256([]byte("something else")))},
		"gosrpt-b-is-new":  {"is not in"},
		"gosrpt-b-is-new2": {"is not in"},
	} {
		path := filepath.Join(dir, name)
		if strings.Contains(name, "new") {
			put(t, dir, name, 0o755)
		}
		v, err := vet(kindBackstore, path, nil, log)
		if want == nil {
			if err != nil || v.launch.File == nil || v.launch.Unchanged() != nil {
				t.Errorf("%s: %v", name, err)
			}
			v.close()
			continue
		}
		mend := fmt.Sprintf("cd %s && sha256sum %s >> catalogue", dir, name)
		for _, want := range append(want, path, mend, fmt.Sprintf("%x", sha256.Sum256([]byte(script)))) {
			if !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	// The catalogue beside the file that a link leads to counts where the link's directory has none.
	other := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "b"), filepath.Join(other, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := vet(kindBackstore, filepath.Join(other, "x"), nil, log); err == nil {
		t.Error("a link from elsewhere avoids the catalogue")
	}
	if err := os.WriteFile(filepath.Join(dir, catalogueName), []byte("nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := vet(kindBackstore, a, nil, log); err == nil || !strings.Contains(err.Error(), "catalogue:1: ") {
		t.Errorf("with a broken catalogue: %v", err)
	}
}

func TestListedManifestMustBeAsListed(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "a", 0o755)
	list(t, dir, "a", script)
	file := path + manifestSuffix
	if err := os.WriteFile(file, []byte("description: mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := vet(kindBackstore, path, nil, hclog.NewNullLogger()); err != nil {
		t.Errorf("not listed: %v", err)
	}
	list(t, dir, "a"+manifestSuffix, "limits: {core: 0}\n")
	if _, err := vet(kindBackstore, path, nil, hclog.NewNullLogger()); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), file) {
		t.Errorf("listed otherwise: %v", err)
	}
}

func reads() int {
	knownSums.Lock()
	defer knownSums.Unlock()
	return knownSums.reads
}

func TestSumIsRememberedUntilTheFileChanges(t *testing.T) {
	path := put(t, t.TempDir(), "a", 0o755)
	age(t, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := reads()
	first, id, err := sumOf(f)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if s, _, err := sumOf(f); err != nil || s != first {
			t.Fatal(s, err)
		}
	}
	if n := reads() - before; n != 1 {
		t.Errorf("the file was read %d times", n)
	}
	if _, err := f.WriteAt([]byte("#!/bin/zz"), 0); err != nil { // the same length
		t.Fatal(err)
	}
	if err := unchanged(f, id); !errors.Is(err, errChanging) {
		t.Errorf("after a change: %v", err)
	}
	if s, _, err := sumOf(f); err != nil || s == first {
		t.Errorf("after a change: the same sum, %v", err)
	}
}
