package nvme

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is what the plugin asks of the system besides I/O.
type kernel struct {
	sys, proc, dev string // where sysfs, proc and the device nodes are

	nsid  func(fd int) (uint32, error)
	admin func(fd int, c command, data []byte) error
}

// linux is the one of this machine.
var linux = kernel{sys: "/sys", proc: "/proc", dev: "/dev", nsid: ioctlID, admin: ioctlAdmin}

// namespaceName is the name of a namespace's block device. The paths of one that has several, nvme0c1n1, are no devices.
var namespaceName = regexp.MustCompile(`^nvme[0-9]+n[0-9]+$`)

// locate returns the path of the namespace that c names.
func (k *kernel) locate(c config) (string, error) {
	if c.device != "" {
		return c.device, nil
	}
	entries, err := os.ReadDir(filepath.Join(k.sys, "block"))
	if err != nil {
		return "", fmt.Errorf("look for the namespace: %w", err)
	}
	var found []string
	for _, e := range entries {
		if namespaceName.MatchString(e.Name()) && k.shown(e.Name()).fits(c.want) == nil {
			found = append(found, filepath.Join(k.dev, e.Name()))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no NVMe namespace of this machine has %s; lsblk -o NAME,SERIAL,WWN lists those that there are", c.want.settings())
	}
	return "", fmt.Errorf("%s have %s; name one with device", strings.Join(found, ", "), c.want.settings())
}

// shown is what the kernel shows of the identity of a namespace. What is not shown or cannot be read is not there.
func (k *kernel) shown(name string) identity {
	var i identity
	dir := filepath.Join(k.sys, "block", name)
	i.serial, _ = readLine(filepath.Join(dir, "device", "serial"))
	if s, err := readLine(filepath.Join(dir, "nsid")); err == nil {
		n, _ := strconv.ParseUint(s, 10, 32)
		i.nsid = uint32(n)
	}
	for file, id := range map[string][]byte{"nguid": i.nguid[:], "eui": i.eui[:]} {
		if s, err := readLine(filepath.Join(dir, file)); err == nil {
			_ = parseID(id, s)
		}
	}
	return i
}

// number is a device's number as sysfs and mountinfo write it.
func number(rdev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev))
}

// isPartition tells whether a block device is a part of another.
func (k *kernel) isPartition(rdev uint64) bool {
	_, err := os.Stat(filepath.Join(k.sys, "dev/block", number(rdev), "partition"))
	return err == nil
}

// queue reads the limits of the block device's queue.
func (k *kernel) queue(rdev uint64) (queue, error) {
	dir := filepath.Join(k.sys, "dev/block", number(rdev), "queue")
	s, err := readLine(filepath.Join(dir, "max_sectors_kb"))
	if err != nil {
		return queue{}, err
	}
	kib, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return queue{}, fmt.Errorf("%s/max_sectors_kb: %w", dir, err)
	}
	cache, err := readLine(filepath.Join(dir, "write_cache"))
	if err != nil {
		return queue{}, err
	}
	return queue{maxTransfer: kib << 10, flushes: cache == "write back"}, nil
}

// user tells who keeps a block device, or a partition of it, from being opened exclusively, and what to do. It is "" if that is
// nobody who stays: a process then.
func (k *kernel) user(rdev uint64) string {
	dir := filepath.Join(k.sys, "dev/block", number(rdev))
	parts := []string{dir}
	if found, err := filepath.Glob(filepath.Join(dir, "*", "partition")); err == nil {
		for _, p := range found {
			parts = append(parts, filepath.Dir(p))
		}
	}
	for _, p := range parts {
		name, dev := k.nameOf(p)
		if at := k.mountedOn(name, dev); at != "" {
			return fmt.Sprintf("%s is mounted on %s; unmount it first", name, at)
		}
		if k.isSwap(name) {
			return fmt.Sprintf("%s is in use as swap; swapoff it first", name)
		}
		holders, err := os.ReadDir(filepath.Join(p, "holders"))
		if err == nil && len(holders) > 0 {
			return fmt.Sprintf("%s is a part of %s; take it out of that first", name, holders[0].Name())
		}
	}
	return ""
}

// nameOf returns the path and the number of the device of a directory in sysfs.
func (k *kernel) nameOf(dir string) (name, dev string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		name = filepath.Join(k.dev, filepath.Base(real))
	}
	dev, _ = readLine(filepath.Join(dir, "dev"))
	return name, dev
}

// mountedOn looks for a mount of a device, in this process' view of the file systems and in that of process 1.
func (k *kernel) mountedOn(name, dev string) string {
	for _, pid := range []string{"self", "1"} {
		b, err := os.ReadFile(filepath.Join(k.proc, pid, "mountinfo"))
		if err != nil {
			continue
		}
		if at := mountOf(string(b), name, dev); at != "" {
			return at
		}
	}
	return ""
}

// mountOf looks for a mount of a device by its number, and by its path for file systems that have numbers of their own.
func mountOf(mountinfo, name, dev string) string {
	for line := range strings.Lines(mountinfo) {
		// "ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS ... - TYPE SOURCE OPTIONS"; proc(5).
		head, tail, _ := strings.Cut(line, " - ")
		f, source := strings.Fields(head), strings.Fields(tail)
		if len(f) > 4 && (f[2] == dev || len(source) > 1 && source[1] == name) {
			return f[4]
		}
	}
	return ""
}

func (k *kernel) isSwap(name string) bool {
	b, err := os.ReadFile(filepath.Join(k.proc, "swaps"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == name {
			return true
		}
	}
	return false
}

// readLine reads a file of sysfs without the spaces around its one line.
func readLine(path string) (string, error) {
	b, err := os.ReadFile(path)
	var p *fs.PathError
	if errors.As(err, &p) {
		return "", fmt.Errorf("%s: %w", path, p.Err)
	}
	return strings.TrimSpace(string(b)), err
}
