package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// siw, the kernel's iWARP over any network interface, is in no kernel of Debian's. It is built from the source that the guest's kernel was
// built from, against that kernel's headers.
const siwSource = "drivers/infiniband/sw/siw"

// kernelSeries is the beginning of the version that names the source's and the build tools' packages: "6.1" of "6.1.0-57-amd64".
func kernelSeries(version string) (string, error) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return "", fmt.Errorf("lab: cannot tell the series of the guest's kernel %q", version)
	}
	return parts[0] + "." + parts[1], nil
}

// buildPackages are what building a module for the kernel of that version takes: its headers, the tools, the source.
func buildPackages(version string) (headers, source []string, err error) {
	series, err := kernelSeries(version)
	if err != nil {
		return nil, nil, err
	}
	common := strings.TrimSuffix(version, "-amd64") + "-common"
	return []string{"linux-headers-" + version, "linux-headers-" + common, "linux-kbuild-" + series}, []string{"linux-source-" + series}, nil
}

// buildSIW adds siw to the modules of the kernel below root. It works in dir.
func buildSIW(ctx context.Context, deb *debian, root, dir string) error {
	_, version, err := findKernel(root)
	if err != nil {
		return err
	}
	headers, source, err := buildPackages(version)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return err
	}
	files, err := deb.fetch(ctx, filepath.Join(dir, "packages"), slices.Concat(headers, source))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := unpackOne(ctx, f, tree); err != nil {
			return err
		}
	}
	code, err := unpackSource(ctx, filepath.Join(tree, "usr/src", source[0]+".tar.xz"), dir)
	if err != nil {
		return err
	}
	if err := makeModule(ctx, filepath.Join(tree, "usr/src"), version, code); err != nil {
		return err
	}
	to := filepath.Join(root, "usr/lib/modules", version, "kernel", siwSource)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return copyFile(filepath.Join(code, "siw.ko"), filepath.Join(to, "siw.ko"))
}

// unpackSource extracts siw alone from the kernel's source and returns its directory.
func unpackSource(ctx context.Context, archive, dir string) (string, error) {
	top := strings.TrimSuffix(filepath.Base(archive), ".tar.xz")
	if out, err := output(ctx, "tar", "--extract", "--xz", "--file", archive, "--directory", dir, "--no-same-owner", top+"/"+siwSource); err != nil {
		return "", fmt.Errorf("lab: unpack the source of siw: %w\n%s", err, out)
	}
	return filepath.Join(dir, top, siwSource), nil
}

// makeModule runs the kernel's build. The headers name each other by where the packages would be installed.
func makeModule(ctx context.Context, src, version, code string) error {
	common := filepath.Join(src, "linux-headers-"+strings.TrimSuffix(version, "-amd64")+"-common")
	headers := filepath.Join(src, "linux-headers-"+version)
	err := os.WriteFile(filepath.Join(headers, "Makefile"), []byte("include "+filepath.Join(common, "Makefile")+"\n"), 0o644)
	if err != nil {
		return err
	}
	out, err := output(ctx, "make", "-C", headers, "M="+code, "CC=gcc", "CONFIG_RDMA_SIW=m", "modules")
	if err != nil {
		return fmt.Errorf("lab: build siw (Debian: gcc, make, libelf1): %w\n%s", err, out)
	}
	return nil
}

// fetch downloads packages, without what they depend on, into a new directory and returns the files.
func (d *debian) fetch(ctx context.Context, dir string, packages []string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := d.aptIn(ctx, dir, append([]string{"download"}, packages...)...); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err == nil && len(files) != len(packages) {
		err = errors.New("lab: apt has not brought " + strings.Join(packages, " "))
	}
	return files, err
}
