package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

// patience bounds every wait for what must happen: long, for machines that are busy with other things.
const patience = 60 * time.Second

// The target's identity in these tests, and the port it listens on.
const (
	testIDExt   = 0x0200_0000_0000_0a01
	testIOCGUID = 0x0200_0000_0000_0a02
	testPort    = 5555
)

// srptd is one life of the daemon.
type srptd struct {
	*site
	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// site is what the lives of a daemon share: its address, socket, files and plugins.
type site struct {
	dir, socket string
	addr        netip.Addr
	args        []string
	adjust      func(*exec.Cmd) // of each life, if not nil
	notify      *net.UnixConn
}

// newSite makes a place for a daemon with args besides those that give it its place. LUN specifications say DIR for the
// site's directory.
func newSite(t testing.TB, args ...string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "srptd") // the sockets' paths must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &site{dir: dir, socket: filepath.Join(dir, "s"), addr: loopback()}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(s.pluginDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--config", "/dev/null", "--listen", s.addr.String(), "--admin-socket", s.socket, "--plugin-dir", s.pluginDir(),
		"--target-id-ext", hex64(testIDExt), "--target-ioc-guid", hex64(testIOCGUID)}
	for _, a := range args {
		s.args = append(s.args, strings.ReplaceAll(a, "DIR", dir))
	}
	s.install(t, "backstore-file")
	s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.notify.Close() })
	return s
}

func (s *site) pluginDir() string        { return filepath.Join(s.dir, "plugins") }
func (s *site) file(name string) string  { return filepath.Join(s.dir, name) }
func (s *site) service() netip.AddrPort  { return netip.AddrPortFrom(s.addr, testPort) }
func (s *site) plugin(exe string) string { return filepath.Join(s.pluginDir(), exe) }

// install puts the file plugin into the site's plugin directory under a name. It is a file of its own, so that its
// processes can be told by their executable.
func (s *site) install(t testing.TB, name string) {
	t.Helper()
	s.installAs(t, "backstore-file", name)
}

// installAs puts a plugin into the site's plugin directory under a name.
func (s *site) installAs(t testing.TB, plugin, name string) {
	t.Helper()
	b, err := os.ReadFile(executable(t, plugin))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, name, b)
}

// write puts an executable into the site's plugin directory.
func (s *site) write(t testing.TB, name string, b []byte) {
	t.Helper()
	// Written under another name first: the daemon may look for it at any moment.
	tmp := filepath.Join(s.dir, "plugin")
	if err := errors.Join(os.WriteFile(tmp, b, 0o755), os.Rename(tmp, s.plugin(name))); err != nil {
		t.Fatal(err)
	}
}

// processes lists the plugin processes of the site.
func (s *site) processes(t testing.TB, exe string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, l := range links {
		to, err := os.Readlink(l)
		if err == nil && strings.HasPrefix(to, s.plugin(exe)) {
			pid, _ := strconv.Atoi(strings.Split(l, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// process is the one plugin process of an executable.
func (s *site) process(t testing.TB, exe string) int {
	t.Helper()
	var pids []int
	eventually(t, "one process of "+exe, func() bool {
		pids = s.processes(t, exe)
		return len(pids) == 1
	})
	return pids[0]
}

// launch starts the daemon and does not wait for it.
func (s *site) launch(t testing.TB, more ...string) *srptd {
	t.Helper()
	d := &srptd{site: s, out: &output{}, exited: make(chan struct{})}
	d.cmd = exec.Command(executable(t, "srptd"), append(slices.Clone(s.args), more...)...)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.notify.LocalAddr().String(), "GORACE=atexit_sleep_ms=0")
	d.cmd.WaitDelay = time.Second
	if s.adjust != nil {
		s.adjust(d.cmd)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() { d.finish(t) })
	return d
}

// start starts the daemon and returns when it says that it is ready.
func (s *site) start(t testing.TB, more ...string) *srptd {
	t.Helper()
	d := s.launch(t, more...)
	d.expectNotice(t, "READY=1")
	return d
}

// newDaemon starts a daemon at a new site.
func newDaemon(t testing.TB, args ...string) *srptd {
	t.Helper()
	return newSite(t, args...).start(t)
}

// expectNotice waits for a message of the daemon to its service manager.
func (d *srptd) expectNotice(t testing.TB, want string) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 256)
		_ = d.notify.SetReadDeadline(time.Now().Add(patience))
		n, _ := d.notify.Read(b)
		got <- string(b[:n])
	}()
	select {
	case s := <-got:
		if s != want {
			t.Fatalf("the service manager is told %q, want %q", s, want)
		}
	case <-d.exited:
		_ = d.notify.SetReadDeadline(time.Now())
		if s := <-got; s != want { // it may have said so just before
			t.Fatalf("srptd ended before it said %s: %v\n%s", want, d.err, d.out)
		}
	}
}

// wait waits for the end and returns the exit code, or 128 and the signal's number.
func (d *srptd) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.signal(t, syscall.SIGQUIT) // shows the goroutines
		<-d.exited
		t.Fatalf("srptd does not end:\n%s", d.out)
	}
	var exit *exec.ExitError
	switch {
	case d.err == nil:
		return 0
	case errors.As(d.err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	t.Fatal(d.err)
	return 0
}

func (d *srptd) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// stop ends the daemon in order.
func (d *srptd) stop(t testing.TB) {
	t.Helper()
	d.signal(t, syscall.SIGTERM)
	if code := d.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, d.out)
	}
	d.expectNotice(t, "STOPPING=1")
}

// finish ends what a test has left running, and looks at how it went.
func (d *srptd) finish(t testing.TB) {
	select {
	case <-d.exited:
	default:
		d.stop(t)
	}
	out := d.out.String()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(out, sign) {
			t.Errorf("srptd printed %q", sign)
		}
	}
	eventually(t, "no plugin process is left", func() bool { return len(d.processes(t, "")) == 0 })
	if t.Failed() {
		t.Logf("srptd printed:\n%s", d.out.tail())
	}
}

// status asks the daemon how it is.
func (s *site) status(t testing.TB) *adminpb.StatusReply {
	t.Helper()
	r, err := ask(s, adminpb.AdminClient.Status, &adminpb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) sessions(t testing.TB) []*adminpb.Session {
	t.Helper()
	r, err := ask(s, adminpb.AdminClient.Sessions, &adminpb.SessionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Sessions
}

func (s *site) fabric(t testing.TB) *adminpb.FabricReply {
	t.Helper()
	r, err := ask(s, adminpb.AdminClient.Fabric, &adminpb.FabricRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask calls the control interface.
func ask[Q, R any](s *site, method func(adminpb.AdminClient, context.Context, Q, ...grpc.CallOption) (R, error), req Q) (R, error) {
	var zero R
	cc, err := grpc.NewClient("unix:"+s.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return zero, err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return method(adminpb.NewAdminClient(cc), ctx, req)
}

// lun is the status of a LUN.
func (s *site) lun(t testing.TB, n uint32) *adminpb.Lun {
	t.Helper()
	luns := s.status(t).Luns
	i := slices.IndexFunc(luns, func(l *adminpb.Lun) bool { return l.Lun == n })
	if i < 0 {
		t.Fatalf("status shows no LUN %d", n)
	}
	return luns[i]
}

// counter is a counter of the daemon's one device, or of the engine.
func (s *site) counter(t testing.TB, name string) uint64 {
	t.Helper()
	r := s.status(t)
	n, ok := r.Counters[name]
	for _, d := range r.Devices {
		v, has := d.Counters[name]
		n, ok = n+v, ok || has
	}
	if !ok {
		t.Fatalf("there is no counter %s", name)
	}
	return n
}

// ctl runs srptctl against the daemon and returns what it prints and its exit code.
func (s *site) ctl(t testing.TB, args ...string) (string, int) {
	t.Helper()
	return runBinary(t, "srptctl", append([]string{"--socket", s.socket}, args...)...)
}

// runBinary runs a program to its end.
func runBinary(t testing.TB, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, executable(t, name), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// eventually waits until something holds that another process brings about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

// within waits for at most a time.
func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond) // nothing tells when another process has got there
	}
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// tail is the end of it.
func (o *output) tail() string {
	s := o.String()
	if most := 64 << 10; len(s) > most {
		return fmt.Sprintf("(%d bytes before)...%s", len(s)-most, s[len(s)-most:])
	}
	return s
}
