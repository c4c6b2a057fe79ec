package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// cpioWriter writes an archive in the "newc" format that the kernel unpacks as its initial RAM disk
// (Documentation/driver-api/early-userspace/buffer-format.rst). The first error sticks.
type cpioWriter struct {
	w     io.Writer
	inode int
	err   error
}

const (
	cpioFile = 0o100000
	cpioDir  = 0o040000
)

func (c *cpioWriter) add(name string, mode int, body []byte) {
	c.inode++
	c.printf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", c.inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name)+1, 0)
	c.pad(110, name+"\x00")
	c.pad(0, string(body))
}

// pad writes s and fills up to a multiple of four bytes, counted from before bytes earlier.
func (c *cpioWriter) pad(before int, s string) {
	c.printf("%s%s", s, "\x00\x00\x00"[:(4-(before+len(s))%4)%4])
}

func (c *cpioWriter) printf(format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.w, format, args...)
	}
}

func (c *cpioWriter) addHostFile(name string, mode int, path string) {
	b, err := os.ReadFile(path)
	if err != nil && c.err == nil {
		c.err = err
	}
	c.add(name, mode, b)
}

// close ends the archive and tells the first error.
func (c *cpioWriter) close() error {
	c.add("TRAILER!!!", 0, nil)
	return c.err
}

// writeInitrd writes an archive with busybox and the modules, named so that the shell's order is their loading order.
func writeInitrd(w io.Writer, busybox, moduleDir string, modules []string) error {
	first, err := recipe.ReadFile("scripts/initrd-init")
	if err != nil {
		return err
	}
	c := &cpioWriter{w: w}
	for _, dir := range []string{"bin", "dev", "modules", "root"} {
		c.add(dir, cpioDir|0o755, nil)
	}
	c.add("init", cpioFile|0o755, first)
	c.addHostFile("bin/busybox", cpioFile|0o755, busybox)
	for i, m := range modules {
		c.addHostFile(fmt.Sprintf("modules/%02d-%s", i, filepath.Base(m)), cpioFile|0o644, filepath.Join(moduleDir, m))
	}
	return c.close()
}
