package sdk_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/api")

// stable are the packages whose exported names plugins rely on.
var stable = []string{"auth", "backstore", "backstore/backstorefault", "ioctx", "plugin", "schema"}

func TestStableAPIIsWhatTheListingSays(t *testing.T) {
	for _, dir := range stable {
		t.Run(dir, func(t *testing.T) {
			got := listing(t, dir)
			file := filepath.Join("testdata", "api", strings.ReplaceAll(dir, "/", "-")+".txt")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the exported names are not those of %s.\nA name may be added: go test ./sdk -update. "+
					"A name that plugins use cannot change.\ngot:\n%s", file, got)
			}
		})
	}
}

// TestContractsImportOnlyTheStandardLibrary keeps the contracts free of whatever a vendor may not want to build.
func TestContractsImportOnlyTheStandardLibrary(t *testing.T) {
	for _, dir := range []string{"backstore", "auth", "ioctx", "schema"} {
		for _, f := range sources(t, token.NewFileSet(), dir) {
			for _, i := range f.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				if err != nil || strings.Contains(strings.Split(path, "/")[0], ".") {
					t.Errorf("sdk/%s imports %s", dir, path)
				}
			}
		}
	}
}

// sources parses a package's files without its tests. A package that is not there has none.
func sources(t *testing.T, set *token.FileSet, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// listing is every exported declaration of a package, without bodies and comments, sorted.
func listing(t *testing.T, dir string) []byte {
	t.Helper()
	set := token.NewFileSet()
	files := sources(t, set, dir)
	if len(files) == 0 {
		t.Fatalf("no package in %s: %v", dir, fs.ErrNotExist)
	}
	p, err := doc.NewFromFiles(set, files, "github.com/gosrpt/gosrpt/sdk/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	var decls []string
	add := func(n ast.Node) { decls = append(decls, render(t, set, n)) }
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			add(v.Decl)
		}
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			f.Decl.Body = nil
			add(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		add(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	slices.Sort(decls)
	return []byte("package " + p.Name + "\n\n" + strings.Join(decls, "\n") + "\n")
}

func render(t *testing.T, set *token.FileSet, n ast.Node) string {
	t.Helper()
	ast.Inspect(n, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.GenDecl:
			d.Doc = nil
		case *ast.FuncDecl:
			d.Doc = nil
		case *ast.Field:
			d.Doc, d.Comment = nil, nil
		case *ast.ValueSpec:
			d.Doc, d.Comment = nil, nil
		case *ast.TypeSpec:
			d.Doc, d.Comment = nil, nil
		}
		return true
	})
	var b bytes.Buffer
	if err := printer.Fprint(&b, set, n); err != nil {
		t.Fatal(err)
	}
	// Where comments stood the printer leaves empty lines.
	var lines []string
	for line := range strings.Lines(b.String()) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(lines, "\n")
}
