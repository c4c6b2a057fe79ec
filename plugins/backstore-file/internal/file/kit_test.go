package file

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/forbid"
	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

// subject is the file backstore on what config describes.
func subject(config func(t testing.TB) map[string]string) backstoretest.Subject {
	return backstoretest.Subject{
		Backstore: Backstore{},
		Config:    config,
		Grow: func(t testing.TB, config map[string]string) {
			if st, err := os.Stat(config["path"]); err != nil || !st.Mode().IsRegular() {
				t.Skip("a device does not grow")
			} else if err := os.Truncate(config["path"], 2*st.Size()); err != nil {
				t.Fatal(err)
			}
		},
		ReadOnly: func(config map[string]string) map[string]string {
			c := maps.Clone(config)
			c["read_only"] = "true"
			return c
		},
	}
}

func TestFilePassesTheKit(t *testing.T) {
	for _, engine := range engines(t) {
		for _, block := range []string{"512", "4096"} {
			t.Run(engine+" "+block, func(t *testing.T) {
				backstoretest.Test(t, subject(func(t testing.TB) map[string]string {
					return map[string]string{"path": filepath.Join(t.TempDir(), "disk"), "size": "4MiB", "engine": engine, "block_size": block}
				}))
			})
		}
	}
}

// loopDevice makes a block device with sectors of 4096 bytes. It ends with the test.
func loopDevice(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "medium")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 4<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", file).CombinedOutput()
	if err != nil {
		t.Skipf("a loop device cannot be made here (root and losetup of util-linux are needed): %v: %s", err, out)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v: %s", dev, err, out)
		}
	})
	return dev
}

func TestBlockDeviceWithLargeSectorsPassesTheKit(t *testing.T) {
	loopDevice(t) // or skip as a whole
	for _, engine := range engines(t) {
		for _, block := range []string{"512", "4096"} {
			if engine == ioUring && block == "512" {
				continue // blocks finer than a sector go through the pool
			}
			t.Run(engine+" "+block, func(t *testing.T) {
				backstoretest.Test(t, subject(func(t testing.TB) map[string]string {
					return map[string]string{"path": loopDevice(t), "engine": engine, "block_size": block}
				}))
			})
		}
	}
}

func TestBlockDeviceTellsItsGeometry(t *testing.T) {
	dev := loopDevice(t)
	s := openStore(t, map[string]string{"path": dev, "direct": on, "block_size": "4096"})
	if i := s.Info(); i.Blocks != 1024 || i.BlockSize != 4096 || i.PhysicalBlockSize != 4096 || i.Notice != "" {
		t.Errorf("%+v", i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, map[string]string{"path": dev, "direct": on})
	if i := s.Info(); i.Blocks != 8192 || i.BlockSize != 512 || i.PhysicalBlockSize != 4096 {
		t.Errorf("%+v", i)
	}
	if _, ok := s.(backstore.Engines); ok {
		t.Error("blocks finer than a sector go to io_uring, which cannot do them")
	}
}

func TestRequestsAllocateNothing(t *testing.T) {
	s := openStore(t, map[string]string{"path": filepath.Join(t.TempDir(), "disk"), "size": "1MiB"})
	data := pattern(8*4096, 1)
	requests := func(flags backstore.Flags) []backstore.Request {
		var reqs []backstore.Request
		for i := range 4 {
			part := data[i*4096 : (i+1)*4096]
			reqs = append(reqs, backstore.Request{Tag: uint64(2 * i), Op: backstore.OpWrite, Flags: flags, Off: int64(i) * 4096, Data: part},
				backstore.Request{Tag: uint64(2*i + 1), Op: backstore.OpRead, Off: int64(i+8) * 4096, Data: part})
		}
		return append(reqs, backstore.Request{Tag: 8, Op: backstore.OpFlush})
	}
	for _, flags := range []backstore.Flags{0, backstore.FUA} {
		reqs := requests(flags)
		if n := testing.AllocsPerRun(50, func() {
			for i := range reqs[:8] {
				if err := call(s, &reqs[i]); err != nil {
					t.Fatal(err)
				}
			}
		}); n > 0 {
			t.Errorf("calls, flags %d: %v allocations", flags, n)
		}
	}
	e, ok := s.(backstore.Engines)
	if !ok {
		t.Skip("this kernel has no io_uring: ", uring.Probe())
	}
	engine, wait := newEngine(t, e, 16)
	reqs, res := requests(backstore.FUA), make([]backstore.Result, 16)
	if n := testing.AllocsPerRun(50, func() {
		engine.Submit(reqs)
		for left := len(reqs); left > 0; {
			n := engine.Poll(res)
			if left -= n; n == 0 {
				wait()
			}
		}
	}); n > 0 {
		t.Errorf("io_uring: %v allocations for %d requests", n, len(reqs))
	}
}

func call(s backstore.Store, r *backstore.Request) error {
	ctx := context.Background()
	if r.Op == backstore.OpWrite {
		return s.Write(ctx, r.Data, r.Off, r.Flags)
	}
	return s.Read(ctx, r.Data, r.Off)
}

// newEngine makes an engine, and what waits until it may have something.
func newEngine(t *testing.T, s backstore.Engines, depth int) (backstore.Engine, func()) {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(wake) })
	e, err := s.NewEngine(t.Context(), wake, depth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	count := make([]byte, 8)
	return e, func() {
		if _, err := unix.Read(wake, count); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

// TestSystemThatForbidsIOUring runs itself in a process where the kernel refuses io_uring, as in many containers.
func TestSystemThatForbidsIOUring(t *testing.T) {
	if os.Getenv("FILE_TEST_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSystemThatForbidsIOUring$", "-test.v")
		cmd.Env = append(os.Environ(), "FILE_TEST_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	if err := forbid.Call(unix.SYS_IO_URING_SETUP, unix.EPERM); err != nil {
		t.Skipf("system calls cannot be forbidden here: %v", err)
	}
	path := filepath.Join(t.TempDir(), "disk")
	_, err := Backstore{}.Open(t.Context(), map[string]string{"path": path, "size": "1MiB", "engine": ioUring})
	if err == nil || !strings.Contains(err.Error(), "engine: auto or pool") {
		t.Errorf("engine: io_uring: %v", err)
	}
	s := openStore(t, map[string]string{"path": path})
	if _, ok := s.(ringStore); ok {
		t.Error("engine: auto: it takes io_uring")
	}
	data, got := pattern(4096, 1), pattern(4096, 2)
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Data: data}); c != backstore.CodeOK {
		t.Error(c)
	}
	if c := do(s, backstore.Request{Op: backstore.OpRead, Data: got}); c != backstore.CodeOK || string(got) != string(data) {
		t.Errorf("%v, or other data", c)
	}
}
