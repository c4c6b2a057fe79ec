package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files of a built guest.
const (
	kernelFile = "vmlinux"
	initrdFile = "initrd.cpio"
	rootFile   = "root.img"
)

// imageSize is the root image's size in bytes; it is sparse.
const imageSize = 2 << 30

// build makes the guest in dir, step by step, telling the log what takes time.
func build(ctx context.Context, dir string, log io.Writer) error {
	work := filepath.Join(dir, "work")
	root := filepath.Join(work, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	var packages []string
	var deb *debian
	steps := []struct {
		what string
		do   func() error
	}{
		{"read the index of Debian " + release, func() (err error) {
			deb, err = newDebian(ctx, filepath.Join(work, "apt"), log)
			return err
		}},
		{"download the packages", func() (err error) {
			packages, err = deb.download(ctx, guestPackages)
			return err
		}},
		{"unpack the packages", func() error { return deb.unpack(ctx, packages, root) }},
		{"build the module siw", func() error { return buildSIW(ctx, deb, root, filepath.Join(work, "siw")) }},
		{"unpack the kernel and choose its modules", func() error { return buildBoot(ctx, dir, root) }},
		{"write the root image", func() error { return buildRoot(ctx, dir, root) }},
		{"remove what was only needed to build", func() error { return os.RemoveAll(work) }},
	}
	for _, s := range steps {
		if err := timed(log, s.what, s.do); err != nil {
			return err
		}
	}
	return nil
}

// buildBoot writes the kernel and the initial RAM disk, and leaves in root only the modules that jobs use.
func buildBoot(ctx context.Context, dir, root string) error {
	bzImage, version, err := findKernel(root)
	if err != nil {
		return err
	}
	if err := unpackKernel(ctx, bzImage, filepath.Join(dir, kernelFile)); err != nil {
		return err
	}
	if err := keepModules(ctx, root, version); err != nil {
		return err
	}
	moduleDir := filepath.Join(root, "usr/lib/modules", version)
	boot, err := moduleFiles(moduleDir, bootModules)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, initrdFile), 0o644, func(w io.Writer) error {
		return writeInitrd(w, filepath.Join(root, "usr/bin/busybox"), moduleDir, boot)
	})
}

// findKernel returns the one kernel image below root and its version.
func findKernel(root string) (bzImage, version string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("lab: the guest has %d kernels, want one", len(found))
	}
	if err != nil {
		return "", "", err
	}
	return found[0], filepath.Base(found[0])[len("vmlinuz-"):], nil
}

// keepModules removes every module but guestModules and what they need, and indexes the rest.
func keepModules(ctx context.Context, root, version string) error {
	if _, err := output(ctx, "depmod", "--basedir", root, version); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	dir := filepath.Join(root, "usr/lib/modules", version)
	keep, err := moduleFiles(dir, guestModules)
	if err != nil {
		return err
	}
	all := filepath.Join(dir, "kernel")
	if err := os.Rename(all, all+".all"); err != nil {
		return err
	}
	for _, m := range keep {
		to := filepath.Join(dir, m)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "kernel.all", m[len("kernel/"):]), to); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(all + ".all"); err != nil {
		return err
	}
	_, err = output(ctx, "depmod", "--basedir", root, version)
	return err
}

func moduleFiles(moduleDir string, names []string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(moduleDir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	return parseModules(string(b)).closure(names)
}

// buildRoot finishes what the packages' own scripts would have done, as far as a job needs it, and writes the image: ext4
// without a journal, since every boot starts from this state.
func buildRoot(ctx context.Context, dir, root string) error {
	first, err := recipe.ReadFile("scripts/lab-init")
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "usr/sbin/lab-init"), first, 0o755),
		removeAllBut(filepath.Join(root, "boot"), "config-*"),
		copyFile(filepath.Join(root, "usr/share/base-passwd/passwd.master"), filepath.Join(root, "etc/passwd")),
		copyFile(filepath.Join(root, "usr/share/base-passwd/group.master"), filepath.Join(root, "etc/group")),
		os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost guest\n::1 localhost\n"), 0o644),
		os.Symlink("gawk", filepath.Join(root, "usr/bin/awk")),
	); err != nil {
		return fmt.Errorf("lab: finish the guest's root: %w", err)
	}
	for _, d := range []string{"dev", "proc", "sys", "run", "tmp", "job", "mnt", "root"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	image := filepath.Join(dir, rootFile)
	err = writeFile(image, 0o644, func(w io.Writer) error { return w.(*os.File).Truncate(imageSize) })
	if err != nil {
		return err
	}
	out, err := output(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum,^huge_file", "-m", "0",
		"-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", "-d", root, image)
	if err != nil {
		return fmt.Errorf("lab: %w: %s", err, out)
	}
	return nil
}

// removeAllBut empties a directory of the files whose names do not match.
func removeAllBut(dir, keep string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if kept, err := filepath.Match(keep, f.Name()); err != nil || kept {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
