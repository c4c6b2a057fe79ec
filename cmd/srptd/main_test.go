package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// These tests run the real daemon, its plugin and the operator's command as processes, on loopback addresses, and talk
// to them as initiators and as hostile peers. `go test -short` skips those that take longer than some seconds.

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// atOnce is how many tests run at a time, unless -parallel says otherwise: most of them wait.
const atOnce = "4"

func runTests(m *testing.M) int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if dir := os.Getenv(insideEnv); dir != "" { // whoever started this process has built them
		binaries.dir = dir
		binaries.once.Do(func() {})
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "srptd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries.dir = dir
	return m.Run()
}

// binaries are built when the first test asks for them.
var binaries struct {
	dir  string
	once sync.Once
	err  error
}

// executable is the path of srptd, srptctl or a plugin. The daemon has the race detector if the tests have it.
func executable(t testing.TB, name string) string {
	t.Helper()
	b := &binaries
	b.once.Do(func() {
		b.err = errors.Join(build(raceDetector, "cmd/srptd"), build(false, "cmd/srptctl"),
			build(false, "plugins/backstore-file", "plugins/auth", "plugins/ioctx", "sdk/internal/testcontrol", "sdk/internal/testplugin"))
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, name)
}

// build builds commands of the module.
func build(race bool, paths ...string) error {
	args := []string{"build", "-race=" + strconv.FormatBool(race), "-o", binaries.dir + "/"}
	for _, path := range paths {
		args = append(args, "github.com/gosrpt/gosrpt/"+path)
	}
	cmd := exec.Command("go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

var lastAddress atomic.Uint32

// loopback is an address of this host that nobody else uses: UDP port 4791 belongs to one process an address, and tests
// run in parallel, of this process and of others.
func loopback() netip.Addr {
	const each, all = 2048, 158 << 16 // addresses of a process, and of all: 127.96.0.0 to 127.253.255.255
	n := (os.Getpid()*each + int(lastAddress.Add(1)%each)) % all
	return netip.AddrFrom4([4]byte{127, byte(96 + n>>16), byte(n >> 8), byte(n)})
}

// long skips a test under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}
