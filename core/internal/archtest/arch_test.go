package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gosrpt/gosrpt/"

// pureBan is what a pure package may not import: its functions take all they need and touch nothing else.
var pureBan = []string{"os", "net", "time", "sync", "log", "context", "unsafe", "reflect", "syscall"}

// rule says what the packages of a path may import. A path ending in /... stands for everything beneath, itself included. The
// longest matching path counts.
type rule struct {
	path string
	pure bool
	// stdOnly forbids every module that is not the standard library, but for those in allow.
	stdOnly bool
	// allow lists the packages of this module that may be imported.
	allow []string
}

var table = []rule{
	// Level 0: pure, contracts.
	{path: "core/ib", pure: true, stdOnly: true},
	{path: "core/srp", pure: true, stdOnly: true},
	{path: "core/scsi", pure: true, stdOnly: true},
	{path: "core/mad", pure: true, stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/mad/sa", pure: true, stdOnly: true, allow: []string{"core/mad", "core/ib"}},
	{path: "core/config"},
	{path: "sdk/backstore", stdOnly: true},
	{path: "sdk/auth", stdOnly: true},
	{path: "sdk/ioctx", stdOnly: true},
	{path: "sdk/schema", stdOnly: true},
	{path: "sdk/backstore/backstorefault", stdOnly: true, allow: []string{"sdk/backstore"}},

	// Level 1: machines, seams, drivers.
	{path: "core/channel", pure: true, stdOnly: true, allow: []string{"core/srp"}},
	{path: "core/nexus", pure: true, stdOnly: true, allow: []string{"core/scsi"}},
	{path: "core/rdma", stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/rdma/rdmatest", allow: []string{"core/rdma", "core/rdma/madmux", "core/rdma/async", "core/ib", "core/internal/leaktest"}},
	{path: "core/rdma/roce/wire", pure: true, stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/rdma/roce/rc", pure: true, stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/rdma/roce/cm", pure: true, stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/rdma/madmux", stdOnly: true, allow: []string{"core/rdma", "core/ib"}},
	{path: "core/rdma/async", stdOnly: true, allow: []string{"core/rdma"}},
	{path: "core/rdma/roce", allow: []string{"core/rdma", "core/rdma/madmux", "core/rdma/async", "core/ib", "core/rdma/roce/..."}},
	{path: "core/rdma/verbs", allow: []string{"core/rdma", "core/rdma/async", "core/ib"}},
	{path: "core/rdma/verbs/ibsimtest", stdOnly: true, allow: []string{"core/ib"}},
	{path: "core/store", stdOnly: true, allow: []string{"sdk/backstore"}},
	{path: "core/store/storetest", stdOnly: true, allow: []string{"core/store", "sdk/backstore"}},
	{path: "core/ioctx", allow: []string{"core/rdma", "sdk/ioctx"}},

	// Level 2: engine.
	{path: "core/hca", allow: []string{"core/rdma", "core/ib", "core/mad"}},
	{path: "core/discover", stdOnly: true, allow: []string{"core/rdma", "core/ib", "core/mad", "core/mad/sa"}},
	{path: "core/initiator", allow: []string{"core/rdma", "core/srp", "core/ib"}},
	{path: "core/lu", allow: []string{"core/scsi", "core/lu/reserve", "core/store", "sdk/backstore"}},
	{path: "core/conn", allow: []string{"core/srp", "core/channel", "core/nexus", "core/rdma", "core/ioctx"}},

	// Level 3: product.
	{path: "core/target", allow: []string{"core/conn", "core/lu", "core/nexus", "core/store", "core/ioctx", "core/config",
		"core/channel", "core/srp", "core/scsi", "core/rdma", "core/ib", "sdk/auth"}},
	{path: "core/pluginhost", allow: []string{"sdk/..."}},
	{path: "core/target/hostile", allow: []string{"core/rdma", "core/srp"}},
	{path: "core/admin", allow: []string{"core/target", "core/config", "core/admin/..."}},
	{path: "core/admin/adminpb"},
	{path: "core/internal/...", allow: []string{"core/internal/..."}},

	// SDK machinery: never core, plugins or cmd.
	{path: "sdk/...", allow: []string{"sdk/..."}},

	{path: "plugins/internal/...", allow: []string{"sdk/backstore", "plugins/internal/..."}},
	{path: "plugins/backstore-file/...", allow: []string{"sdk/backstore", "sdk/schema", "sdk/plugin", "plugins/internal/...", "plugins/backstore-file/..."}},
	{path: "plugins/backstore-nvme/...", allow: []string{"sdk/backstore", "sdk/schema", "sdk/plugin", "plugins/internal/...", "plugins/backstore-nvme/..."}},
	{path: "plugins/auth/...", allow: []string{"sdk/auth", "sdk/schema", "sdk/plugin", "plugins/auth/..."}},
	{path: "plugins/ioctx/...", allow: []string{"sdk/ioctx", "sdk/schema", "sdk/plugin", "plugins/ioctx/..."}},

	// The top knows everything but plugins.
	{path: "cmd/...", allow: []string{"core/...", "sdk/...", "cmd/..."}},
}

func TestImportTableHolds(t *testing.T) {
	for dir, imports := range imports(t) {
		r, ok := ruleFor(dir)
		if !ok {
			t.Errorf("%s: no rule in the import table", dir)
			continue
		}
		for imp, file := range imports {
			if why := r.refuses(dir, imp); why != "" {
				t.Errorf("%s imports %q: %s", file, imp, why)
			}
		}
	}
}

func TestEveryRuleMatchesAPackage(t *testing.T) {
	for _, r := range table {
		dir := strings.TrimSuffix(r.path, "/...")
		if _, err := os.Stat(filepath.Join(root(t), dir)); err != nil && !isPlanned(dir) {
			t.Errorf("rule for %s: %v", r.path, err)
		}
	}
}

// isPlanned names packages of the design that have a rule before they have code.
func isPlanned(dir string) bool {
	return slices.Contains([]string{"sdk/auth", "sdk/ioctx"}, dir)
}

func TestRuleRefusesWhatItMust(t *testing.T) {
	cases := []struct{ dir, imp string }{
		{"core/srp", "time"}, {"core/srp", "net/netip"}, {"core/srp", module + "core/ib"},
		{"sdk/backstore", "google.golang.org/grpc"}, {"sdk/host", module + "core/rdma"},
		{"plugins/backstore-file/internal/engine", module + "sdk/host"}, {"plugins/internal/uring", module + "sdk/plugin"},
		{"plugins/backstore-nvme", module + "plugins/backstore-file/internal/file"}, {"plugins/auth", module + "plugins/internal/uring"},
		{"plugins/auth/internal/accesslist", module + "core/config"}, {"plugins/ioctx", module + "sdk/auth"},
		{"sdk/auth", "google.golang.org/grpc"}, {"sdk/ioctx", module + "sdk/auth"},
		{"cmd/srptd", module + "plugins/backstore-file"}, {"core/conn", module + "core/lu"},
	}
	for _, c := range cases {
		r, ok := ruleFor(c.dir)
		if !ok {
			t.Fatalf("no rule for %s", c.dir)
		}
		if r.refuses(c.dir, c.imp) == "" {
			t.Errorf("%s may import %s", c.dir, c.imp)
		}
	}
}

// cgo is where C is, and so where a build without a C compiler has nothing to miss.
const cgo = "core/rdma/verbs"

func TestOnlyTheVerbsProviderHasC(t *testing.T) {
	all := imports(t)
	for dir, found := range all {
		if file, ok := found["C"]; ok && dir != cgo {
			t.Errorf("%s imports C, which only %s may", file, cgo)
		}
	}
	if _, ok := all[cgo]["C"]; !ok {
		t.Errorf("%s does not import C: is it looked at?", cgo)
	}
}

// refuses returns why the package in dir may not import imp, or "".
func (r rule) refuses(dir, imp string) string {
	local, ours := strings.CutPrefix(imp, module)
	switch {
	case ours && local == dir:
		return ""
	case ours && !slices.ContainsFunc(r.allow, func(p string) bool { return matches(p, local) }):
		return "not in its row of the import table"
	case ours:
		return ""
	case r.pure && slices.ContainsFunc(pureBan, func(b string) bool { return imp == b || strings.HasPrefix(imp, b+"/") }):
		return "the package is pure"
	case r.stdOnly && strings.Contains(strings.Split(imp, "/")[0], "."):
		return "only the standard library is permitted"
	}
	return ""
}

func ruleFor(dir string) (best rule, ok bool) {
	for _, r := range table {
		if matches(r.path, dir) && len(r.path) > len(best.path) {
			best, ok = r, true
		}
	}
	return best, ok
}

func matches(pattern, dir string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	return pattern == dir
}

// imports returns, for each directory of the module, what its non-test files import and one file that does.
func imports(t *testing.T) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	base := root(t)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || (strings.HasPrefix(name, ".") && path != base)) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		return addImports(found, rel, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func addImports(found map[string]map[string]string, rel, path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	dir := filepath.ToSlash(filepath.Dir(rel))
	if found[dir] == nil {
		found[dir] = map[string]string{}
	}
	for _, s := range f.Imports {
		found[dir][strings.Trim(s.Path.Value, `"`)] = rel
	}
	return nil
}

// root is the module's directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
