package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
)

// Local is this machine. Config, ConfigFile, Socket and Ask are the caller's to set.
func Local(version string) *Host {
	return &Host{
		UID: os.Geteuid(), Links: links, Output: output, Memlock: memlock, BuildOf: built.Of, Executable: findDaemon,
		Build: built.Own(version),
	}
}

// findDaemon finds srptd beside this program, or in the PATH.
func findDaemon() string {
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), "srptd")
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside
		}
	}
	return lookPath("srptd")
}

// lookPath is exec.LookPath that also looks where a plain user's PATH does not.
func lookPath(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	return ""
}

func memlock() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	return l.Cur, err
}

// Bounds of a tool.
const (
	toolTime   = 10 * time.Second
	maxToolOut = 16 << 20
)

// output runs a tool.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	path := lookPath(name)
	if path == "" {
		return nil, fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	c := exec.CommandContext(ctx, path, args...)
	c.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	c.WaitDelay = time.Second
	out, errOut := &limited{max: maxToolOut}, &limited{max: maxText}
	c.Stdout, c.Stderr = out, errOut
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", name, err, errOut.b.String())
	case out.over:
		return nil, fmt.Errorf("%s prints more than %d bytes", name, maxToolOut)
	}
	return out.b.Bytes(), nil
}

// limited keeps the beginning of what is written to it.
type limited struct {
	b    bytes.Buffer
	max  int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.max-l.b.Len())
	l.over = l.over || n < len(p)
	l.b.Write(p[:n])
	return len(p), nil
}

// links lists the interfaces of this network namespace.
func links() ([]Link, error) {
	list, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range list {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var out []Link
	for _, l := range list {
		a := l.Attrs()
		link := Link{
			Name: a.Name, Kind: cmp.Or(l.Type(), "device"), MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0,
			Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, Master: names[a.MasterIndex],
		}
		// The other end of a veth pair is no parent.
		if a.NetNsID < 0 && l.Type() != "veth" {
			link.Parent = names[a.ParentIndex]
		}
		if link.Addrs, err = addrs(l); err != nil {
			return nil, err
		}
		out = append(out, link)
	}
	return out, nil
}

func addrs(l netlink.Link) ([]Addr, error) {
	list, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("addresses of %s: %w", l.Attrs().Name, err)
	}
	var out []Addr
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		ones, _ := a.Mask.Size()
		out = append(out, Addr{
			Prefix:    netip.PrefixFrom(ip.Unmap(), ones),
			Duplicate: a.Flags&unix.IFA_F_DADFAILED != 0,
			Tentative: a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0,
		})
	}
	return out, nil
}
