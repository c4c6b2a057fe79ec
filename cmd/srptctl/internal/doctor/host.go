package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/config"
)

// Host is where the examination looks.
type Host struct {
	// Root stands before every path of files; "" is this machine.
	Root string
	// UID is who looks.
	UID int
	// Config reads the configuration, from ConfigFile or the default one if that is empty.
	Config     func() (*config.Config, error)
	ConfigFile string
	// Socket is the control socket to try in place of the configuration's.
	Socket string
	// Ask asks a daemon at a control socket what it is. Errors wrap those of the operating system.
	Ask func(ctx context.Context, socket string) (Daemon, error)
	// Links lists the network interfaces.
	Links func() ([]Link, error)
	// Output runs a tool and returns what it prints. Errors wrap exec.ErrNotFound if it is not installed.
	Output func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Memlock is this process's limit of locked memory, in bytes.
	Memlock func() (uint64, error)
	// Build is what this program was built with; BuildOf that of an executable.
	Build   built.Info
	BuildOf func(path string) (built.Info, error)
	// Executable finds srptd where no process of it runs; "" if it is not installed.
	Executable func() string
}

// Daemon is what answers at a control socket.
type Daemon struct {
	Version string
	Up      time.Duration
	// PID is 0 if it is not known.
	PID int
}

// Link is a network interface.
type Link struct {
	Name string
	// Kind is the kernel's word for a virtual interface, such as vlan, bond, bridge; "device" for a real one.
	Kind string
	MTU  int
	// Up is what the operator wants, Carrier what the cable says.
	Up, Carrier, Loopback bool
	// Parent is the interface that carries a VLAN or the like; Master is the bond or bridge that this one is a part of.
	Parent, Master string
	Addrs          []Addr
}

// Addr is an address of an interface.
type Addr struct {
	Prefix netip.Prefix
	// Duplicate: somebody else on the link has it. Tentative: that is still being found out.
	Duplicate, Tentative bool
}

// Bounds of what is read, in bytes and names. A table is one of the kernel's, with a line for each of many things.
const (
	maxFile  = 1 << 20
	maxTable = 64 << 20
	maxNames = 1 << 16
)

func (h *Host) path(p string) string { return h.Root + p }

// read reads a small file, without white space at its ends.
func (h *Host) read(p string) (string, error) { return h.readUpTo(p, maxFile) }

func (h *Host) readUpTo(p string, most int) (string, error) {
	// A named pipe, or a device, must not hold us up.
	f, err := os.OpenFile(h.path(p), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > most:
		return "", fmt.Errorf("%s is longer than %d bytes", p, most)
	}
	return strings.TrimSpace(string(b)), nil
}

// list lists the names in a directory, of which there may be none.
func (h *Host) list(p string) []string {
	d, err := os.Open(h.path(p))
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if err != nil {
		return nil
	}
	return names
}

// glob lists the files of a pattern, in order, as paths on the host.
func (h *Host) glob(pattern string) []string {
	list, err := filepath.Glob(h.path(pattern))
	if err != nil {
		return nil
	}
	for i := range list {
		list[i] = strings.TrimPrefix(list[i], h.Root)
	}
	return list
}

func (h *Host) exists(p string) bool {
	_, err := os.Lstat(h.path(p))
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
