// Package scaffold writes the beginning of a plugin.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

//go:embed templates
var templates embed.FS

// Kinds are those of plugins.
var Kinds = []string{"backstore", "auth", "ioctx"}

// sdkModule is where the SDK is.
const sdkModule = "github.com/gosrpt/gosrpt"

// Project is what to write.
type Project struct {
	// Kind is one of Kinds; Name the plugin's, and its executable's.
	Kind, Name string
	// Module is the path of the Go module; empty means example.com/NAME.
	Module string
	// version is the SDK's, checkout the absolute path that stands for it. One of both is set.
	version, checkout string
	// sdkMod is the checkout's go.mod.
	sdkMod *modfile.File
}

// InputError says that the project cannot be as it was asked for.
type InputError struct{ Err error }

// Error tells why.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *InputError) Unwrap() error { return e.Err }

func wrong(format string, args ...any) error { return &InputError{fmt.Errorf(format, args...)} }

// UseSDK sets the SDK: a version, the path of a checkout, or, if it is empty, the version own.
func (p *Project) UseSDK(sdk, own string) error {
	if sdk == "" {
		if !semver.IsValid(own) || semver.Prerelease(own) != "" {
			return wrong("this srptctl (%s) is no release: say with --sdk which version of the SDK to use, or the path of a checkout", own)
		}
		sdk = own
	}
	if semver.IsValid(sdk) {
		p.version = semver.Canonical(sdk)
		return nil
	}
	dir, err := filepath.Abs(sdk)
	if err != nil {
		return wrong("--sdk %s: %w", sdk, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return wrong("--sdk %s is neither a version nor a checkout: %w", sdk, err)
	}
	if p.sdkMod, err = modfile.Parse("go.mod", text, nil); err != nil {
		return wrong("--sdk %s: %w", sdk, err)
	}
	if p.sdkMod.Module == nil || p.sdkMod.Module.Mod.Path != sdkModule {
		return wrong("--sdk %s is a checkout of something else than %s", sdk, sdkModule)
	}
	p.checkout = dir
	return nil
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func (p *Project) check() error {
	if !slices.Contains(Kinds, p.Kind) {
		return wrong("%q is no kind of plugin; there are %s", p.Kind, strings.Join(Kinds, ", "))
	}
	if !goodName.MatchString(p.Name) {
		return wrong("%q cannot be a plugin's name: lower case letters, digits and - can be, a letter first", p.Name)
	}
	if p.Module == "" {
		p.Module = "example.com/" + p.Name
	}
	if err := module.CheckImportPath(p.Module); err != nil {
		return wrong("--module: %w", err)
	}
	return nil
}

// Write writes the project to dir, which must not be there or be empty, and returns the paths of its files.
func (p *Project) Write(dir string) ([]string, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("%s is there already and not empty: nothing is overwritten; choose another --dir", dir)
	}
	files, err := p.render()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		name := filepath.Join(dir, f.name)
		if err := create(name, f.text); err != nil {
			return paths, err
		}
		paths = append(paths, name)
	}
	return paths, nil
}

// create writes a file that is not there.
func create(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// file is one of the project.
type file struct {
	name string
	text []byte
}

// render makes the files.
func (p *Project) render() ([]file, error) {
	mod, err := p.goMod()
	if err != nil {
		return nil, err
	}
	files := []file{{"go.mod", mod}}
	if p.checkout != "" {
		sums, err := os.ReadFile(filepath.Join(p.checkout, "go.sum"))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"go.sum", sums})
	}
	for _, from := range []string{"common", p.Kind} {
		more, err := p.from(path.Join("templates", from))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

func (p *Project) from(dir string) ([]file, error) {
	entries, err := templates.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		t, err := template.ParseFS(templates, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, p); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Name(), ".tmpl")
		switch name {
		case "gitignore":
			name = ".gitignore"
		case "manifest.yaml":
			name = p.Name + ".manifest.yaml"
		}
		files = append(files, file{name, b.Bytes()})
	}
	return files, nil
}

// goMod requires the SDK. With a checkout everything that it requires comes along, so that nothing need be looked up; go mod tidy
// leaves what is needed.
func (p *Project) goMod() ([]byte, error) {
	f := &modfile.File{}
	if err := errors.Join(f.AddModuleStmt(p.Module), f.AddGoStmt("1.26.0")); err != nil {
		return nil, err
	}
	version := p.version
	if p.checkout != "" {
		version = "v0.0.0"
	}
	f.AddNewRequire(sdkModule, version, false)
	if p.checkout != "" {
		for _, r := range p.sdkMod.Require {
			f.AddNewRequire(r.Mod.Path, r.Mod.Version, true)
		}
		if err := f.AddReplace(sdkModule, "", p.checkout, ""); err != nil {
			return nil, err
		}
	}
	if err := f.AddTool(sdkModule + "/cmd/srpt-plugin-check"); err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}
