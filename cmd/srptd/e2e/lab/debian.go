package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debian fetches and unpacks packages by the host's own apt, with a state of its own: nothing of it shows on the host.
type debian struct {
	dir string // state, cache and sources of apt
	log io.Writer
}

const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// newDebian prepares apt's directories under dir and an index of the release's packages.
func newDebian(ctx context.Context, dir string, log io.Writer) (*debian, error) {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	sources, err := hostSources(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"sources.list": sources, "status": ""}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return nil, err
		}
	}
	d := &debian{dir: dir, log: log}
	return d, d.apt(ctx, "update")
}

// hostSources are the lines of a sources.list for the guest: the places from which the host gets the same release, or the
// one in GOSRPT_DEBIAN_MIRROR where the host is another system.
func hostSources(ctx context.Context) (string, error) {
	if mirror := os.Getenv("GOSRPT_DEBIAN_MIRROR"); mirror != "" {
		return sourceLine(mirror, release), nil
	}
	out, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages")
	if err != nil {
		return "", fmt.Errorf("lab: ask apt where its packages come from: %w", err)
	}
	lines := releaseSources(out)
	if lines == "" {
		return "", errors.New("lab: this host's apt has no source of Debian " + release + "; set GOSRPT_DEBIAN_MIRROR to a mirror's address")
	}
	return lines, nil
}

// releaseSources picks the wanted release's sources from "URI RELEASE" lines.
func releaseSources(targets string) string {
	var lines []string
	for line := range strings.Lines(targets) {
		uri, suite, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted := strings.HasPrefix(suite, release) && strings.Contains(uri, "debian")
		if l := sourceLine(uri, suite); wanted && !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "")
}

func sourceLine(uri, suite string) string {
	return fmt.Sprintf("deb [signed-by=%s] %s %s main\n", archiveKeyring, uri, suite)
}

// apt runs apt-get on the private state and shows its output only when it fails.
func (d *debian) apt(ctx context.Context, args ...string) error { return d.aptIn(ctx, "", args...) }

// aptIn is apt in a directory, where it puts what it downloads by name.
func (d *debian) aptIn(ctx context.Context, dir string, args ...string) error {
	set := []string{
		"Dir::State=" + filepath.Join(d.dir, "state"),
		"Dir::State::status=" + filepath.Join(d.dir, "status"),
		"Dir::Cache=" + filepath.Join(d.dir, "cache"),
		"Dir::Etc::sourcelist=" + filepath.Join(d.dir, "sources.list"),
		"Dir::Etc::sourceparts=/dev/null",
		"Dir::Etc::preferencesparts=/dev/null",
		"APT::Architecture=amd64", "APT::Install-Recommends=false", "APT::Sandbox::User=root",
		"APT::Keep-Downloaded-Packages=true", "Acquire::Languages=none", "Acquire::Retries=3", "Debug::NoLocking=1",
	}
	var all []string
	for _, s := range set {
		all = append(all, "-o", s)
	}
	out, err := outputIn(ctx, dir, "apt-get", append(all, args...)...)
	if err != nil {
		return fmt.Errorf("lab: %w\n%s", err, out)
	}
	return nil
}

// download fetches the packages with their dependencies and returns the files.
func (d *debian) download(ctx context.Context, packages []string) ([]string, error) {
	if err := d.apt(ctx, append([]string{"install", "--yes", "--download-only"}, packages...)...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(d.dir, "cache/archives/*.deb"))
}

// unpack extracts the packages below root. The directories that Debian merged into /usr are links beforehand.
func (d *debian) unpack(ctx context.Context, packages []string, root string) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for _, p := range packages {
		if err := unpackOne(ctx, p, root); err != nil {
			return err
		}
	}
	return nil
}

// unpackOne extracts one package: dpkg-deb unpacks it and tar, which can follow the links and leave things out, writes it.
func unpackOne(ctx context.Context, pkg, root string) error {
	tarArgs := []string{"--extract", "--directory", root, "--keep-directory-symlink", "--no-same-owner"}
	for _, u := range unwanted {
		tarArgs = append(tarArgs, "--exclude="+u)
	}
	var stderr bytes.Buffer
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", pkg)
	to := exec.CommandContext(ctx, "tar", tarArgs...)
	from.Stderr, to.Stderr = &stderr, &stderr
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = pipe
	if err := from.Start(); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	err = errors.Join(to.Run(), from.Wait())
	if err != nil {
		return fmt.Errorf("lab: unpack %s: %w: %s", filepath.Base(pkg), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// output runs a command and returns what it said, to both streams, and its failure.
func output(ctx context.Context, name string, args ...string) (string, error) {
	return outputIn(ctx, "", name, args...)
}

// outputIn is output of a command in a directory, or in this process's if that is "".
func outputIn(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	b, err := cmd.CombinedOutput()
	if err != nil {
		return string(b), fmt.Errorf("%s %s: %w", name, args[len(args)-1], err)
	}
	return string(b), nil
}
