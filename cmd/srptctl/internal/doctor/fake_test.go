package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fake is a host that is made up.
type fake struct {
	*Host
	t     *testing.T
	cfg   *config.Config
	links []Link
	// tools are what the tools print, by their name and arguments.
	tools map[string]string
}

// healthy is a host on which all is well: srptd is not running, and eth0 has two addresses of which one is listened at.
func healthy(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, tools: map[string]string{"nft -j list ruleset": `{"nftables": []}`}}
	f.cfg = &config.Config{File: "/etc/gosrpt/srptd.yaml", Provider: "roce", Listen: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		LUNs: []config.LUN{{Name: "disk0", Plugin: "backstore-file"}}, PluginDirs: []string{"/usr/lib/gosrpt/plugins"},
		Admin: config.Admin{Socket: "/run/gosrpt/srptd.sock"}, RoCE: config.RoCE{ReceiveBuffer: 32 << 20}}
	f.links = []Link{
		{Name: "lo", Kind: "device", MTU: 65536, Up: true, Carrier: true, Loopback: true, Addrs: addrsOf("127.0.0.1/8", "::1/128")},
		{Name: "eth0", Kind: "device", MTU: 9000, Up: true, Carrier: true, Addrs: addrsOf("10.0.0.2/24", "fe80::2/64")},
	}
	f.Host = &Host{
		Root: t.TempDir(), Build: built.Info{Version: "v1", Go: "go1.26"},
		Config:     func() (*config.Config, error) { return f.cfg, nil },
		Ask:        func(context.Context, string) (Daemon, error) { return Daemon{}, fs.ErrNotExist },
		Links:      func() ([]Link, error) { return f.links, nil },
		Memlock:    func() (uint64, error) { return 8 << 20, nil },
		BuildOf:    func(string) (built.Info, error) { return built.Info{Go: "go1.26"}, nil },
		Executable: func() string { return "/usr/sbin/srptd" },
		Output: func(_ context.Context, name string, args ...string) ([]byte, error) {
			out, ok := f.tools[strings.Join(append([]string{name}, args...), " ")]
			if !ok {
				return nil, fmt.Errorf("%s: %w", name, exec.ErrNotFound)
			}
			return []byte(out), nil
		},
	}
	f.put("/etc/gosrpt/srptd.yaml", "luns: []")
	f.put("/proc/sys/kernel/osrelease", "6.12.0-1-amd64")
	f.put("/proc/net/udp", udpHeader)
	f.put("/proc/net/udp6", udpHeader)
	f.put("/proc/sys/net/core/rmem_max", "33554432")
	f.put("/proc/sys/net/core/wmem_max", "4194304")
	f.put("/usr/lib/gosrpt/plugins/backstore-file", "#!")
	f.chmod("/usr/lib/gosrpt/plugins/backstore-file", 0o755)
	return f
}

const udpHeader = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"

// udp is a socket's line in /proc/net/udp.
func udp(addr string, inode int) string {
	return fmt.Sprintf("  100: %s 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 %d 2 0000000000000000 0\n", addr, inode)
}

func addrsOf(list ...string) []Addr {
	var out []Addr
	for _, s := range list {
		out = append(out, Addr{Prefix: netip.MustParsePrefix(s)})
	}
	return out
}

func (f *fake) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) put(path, text string) {
	f.t.Helper()
	p := f.Root + path
	f.must(os.MkdirAll(filepath.Dir(p), 0o755))
	f.must(os.WriteFile(p, []byte(text), 0o644))
}

func (f *fake) chmod(path string, mode fs.FileMode) { f.must(os.Chmod(f.Root+path, mode)) }
func (f *fake) remove(path string)                  { f.must(os.RemoveAll(f.Root + path)) }

// process makes a process with sockets.
func (f *fake) process(pid int, comm string, sockets ...int) {
	dir := fmt.Sprintf("/proc/%d", pid)
	f.put(dir+"/comm", comm+"\n")
	f.put(dir+"/status", "Name:\t"+comm+"\nPPid:\t1\nCapEff:\t0000000000000000\n")
	f.put(dir+"/limits", "Limit                     Soft Limit           Hard Limit           Units\n"+
		"Max locked memory         8388608              8388608              bytes\n")
	f.must(os.MkdirAll(f.Root+dir+"/fd", 0o755))
	for i, n := range sockets {
		f.must(os.Symlink(fmt.Sprintf("socket:[%d]", n), fmt.Sprintf("%s%s/fd/%d", f.Root, dir, i+3)))
	}
}

// runs lets a daemon run, which answers at the socket.
func (f *fake) runs(pid int, sockets ...int) {
	f.process(pid, "srptd", sockets...)
	f.Ask = func(context.Context, string) (Daemon, error) {
		return Daemon{Version: "v1", Up: 90 * time.Second, PID: pid}, nil
	}
}

// row is a finding as a line.
func row(f Finding) string {
	s := fmt.Sprintf("%v %s: %s", f.Level, f.Subject, f.What)
	if f.Mend != "" {
		s += " -> " + f.Mend
	}
	return s
}

// check runs the examination and compares the rows of a group.
func (f *fake) check(group string, want ...string) {
	f.t.Helper()
	var got []string
	for _, x := range Run(f.t.Context(), f.Host) {
		if x.Check == group {
			got = append(got, row(x))
		}
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("%s\n got %s\nwant %s", group, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// golden compares with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v\n%s", path, err, got)
	}
}

var errBoom = errors.New("boom")
