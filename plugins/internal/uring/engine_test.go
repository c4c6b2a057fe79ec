package uring

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/forbid"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const endless = 1<<63 - 1

// bench is an engine on a descriptor and what it announces completions with.
type bench struct {
	*Engine
	t    *testing.T
	wake int
}

func newBench(t *testing.T, fd int, size int64, depth int) *bench {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(wake) })
	e, err := New(fd, size, wake, depth, Code)
	if err != nil {
		if Probe() != nil {
			t.Skipf("this system has no io_uring: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return &bench{e, t, wake}
}

// collect waits for n results, and returns them by tag.
func (b *bench) collect(n int) map[uint64]backstore.Code {
	b.t.Helper()
	got := map[uint64]backstore.Code{}
	for len(got) < n {
		var res [3]backstore.Result
		k := b.Poll(res[:])
		for _, r := range res[:k] {
			if _, twice := got[r.Tag]; twice {
				b.t.Fatalf("request %d ended twice", r.Tag)
			}
			got[r.Tag] = r.Code
		}
		if k == 0 {
			var count [8]byte
			if _, err := unix.Read(b.wake, count[:]); err != nil && err != unix.EINTR {
				b.t.Fatal(err)
			}
		}
	}
	return got
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// reads makes n requests of size bytes each.
func reads(n, size int, buf []byte) []backstore.Request {
	var reqs []backstore.Request
	for i := range n {
		reqs = append(reqs, backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: buf[i*size : (i+1)*size]})
	}
	return reqs
}

func TestEngineTakesNothingBackBeforeItHasEnded(t *testing.T) {
	r, w := pipe(t)
	b := newBench(t, int(r.Fd()), endless, 4)
	buf := make([]byte, 4)
	b.Submit(reads(4, 1, buf))
	var res [4]backstore.Result
	if n := b.Poll(res[:]); n != 0 || b.Ended() {
		t.Fatalf("%d ended in an empty pipe", n)
	}
	if _, err := w.Write([]byte("abcd")); err != nil {
		t.Fatal(err)
	}
	for tag, c := range b.collect(4) {
		if c != backstore.CodeOK {
			t.Errorf("request %d: %v", tag, c)
		}
	}
}

func TestShortTransferIsContinued(t *testing.T) {
	r, w := pipe(t)
	b := newBench(t, int(r.Fd()), endless, 1)
	buf := make([]byte, 10)
	b.Submit(reads(1, 10, buf))
	for range 5 {
		if _, err := w.Write([]byte("xy")); err != nil {
			t.Fatal(err)
		}
		b.Poll(nil) // whether it has come or not
	}
	if got := b.collect(1); got[0] != backstore.CodeOK || string(buf) != "xyxyxyxyxy" {
		t.Errorf("%v, %q", got, buf)
	}
}

func TestEndOfTheFileIsAnError(t *testing.T) {
	r, w := pipe(t)
	b := newBench(t, int(r.Fd()), endless, 1)
	b.Submit(reads(1, 10, make([]byte, 10)))
	w.Write([]byte("short"))
	w.Close()
	if got := b.collect(1); got[0] != backstore.CodeIO {
		t.Errorf("%v", got)
	}
}

func TestErrorOfTheKernelIsTheRequestsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path) // for reading
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := newBench(t, int(f.Fd()), 8192, 8)
	buf := make([]byte, 4*512)
	b.Submit([]backstore.Request{
		{Tag: 1, Op: backstore.OpRead, Off: 512, Data: buf[:512]},
		{Tag: 2, Op: backstore.OpWrite, Off: 512, Data: buf[512:1024]},
		{Tag: 3, Op: backstore.OpRead, Off: 8192 - 512, Data: buf[1024:1536]},
		{Tag: 4, Op: backstore.OpRead, Off: 8192, Data: buf[1536:]},
		{Tag: 5, Op: backstore.OpWrite, Off: -512, Data: buf[1536:]},
		{Tag: 6, Op: 99},
		{Tag: 7, Op: backstore.OpFlush},
	})
	want := map[uint64]backstore.Code{
		1: backstore.CodeOK, 2: backstore.CodeReadOnly, 3: backstore.CodeOK, 4: backstore.CodeRange,
		5: backstore.CodeRange, 6: backstore.CodeNotSupported, 7: backstore.CodeOK,
	}
	for tag, c := range b.collect(len(want)) {
		if c != want[tag] {
			t.Errorf("request %d: %v, want %v", tag, c, want[tag])
		}
	}
	if buf[0] != 7 || buf[1024] != 7 || buf[512] != 0 {
		t.Error("the data are not the file's")
	}
}

func TestCodesOfErrors(t *testing.T) {
	for err, want := range map[error]backstore.Code{
		nil: backstore.CodeOK, unix.ENOSPC: backstore.CodeNoSpace, unix.EDQUOT: backstore.CodeNoSpace,
		unix.EROFS: backstore.CodeReadOnly, unix.EBADF: backstore.CodeReadOnly, unix.EPERM: backstore.CodeReadOnly,
		unix.ENODEV: backstore.CodeUnavailable, unix.ENXIO: backstore.CodeUnavailable,
		unix.EIO: backstore.CodeIO, io.ErrUnexpectedEOF: backstore.CodeIO,
		&os.PathError{Op: "write", Err: unix.ENOSPC}: backstore.CodeNoSpace,
	} {
		if got := Code(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestImpossibleEngineIsRefused(t *testing.T) {
	if Probe() != nil {
		t.Skip("this system has no io_uring")
	}
	for name, c := range map[string]struct{ wake, depth int }{"no eventfd": {0, 4}, "no room": {-1, 0}, "too deep": {-1, 1 << 20}} {
		r, _ := pipe(t)
		wake := c.wake
		if wake == 0 {
			wake = int(r.Fd()) // something else
		}
		if e, err := New(int(r.Fd()), endless, wake, c.depth, Code); err == nil {
			e.Close()
			t.Errorf("%s: it is made", name)
		}
	}
}

// inChild runs the test again in a process of its own, where f has forbidden something. It returns true there.
func inChild(t *testing.T, f func() error) bool {
	t.Helper()
	const env = "URING_TEST_CHILD"
	if os.Getenv(env) == t.Name() {
		if err := f(); err != nil {
			t.Skipf("system calls cannot be forbidden here: %v", err)
		}
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	return false
}

func TestProbeSaysWhatIsForbidden(t *testing.T) {
	if !inChild(t, func() error { return forbid.Call(unix.SYS_IO_URING_SETUP, unix.EPERM) }) {
		return
	}
	if err := Probe(); !errors.Is(err, unix.EPERM) {
		t.Errorf("%v", err)
	}
	if _, err := New(0, endless, 0, 4, Code); !errors.Is(err, unix.EPERM) {
		t.Errorf("%v", err)
	}
}

func TestProbeNeedsEveryOperation(t *testing.T) {
	if !inChild(t, func() error { return forbid.Call(unix.SYS_IO_URING_REGISTER, unix.EINVAL) }) {
		return
	}
	if err := Probe(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a kernel that does not answer the probe: %v", err)
	}
}

// The kernel refuses exactly four requests at a time here, as it does when it is short of memory.
func TestRequestsThatTheKernelHasNoMemoryForAreSubmittedAgain(t *testing.T) {
	if Probe() != nil {
		t.Skip("this system has no io_uring")
	}
	if !inChild(t, func() error { return forbid.CallWith(unix.SYS_IO_URING_ENTER, 4, unix.EAGAIN) }) {
		return
	}
	r, w := pipe(t)
	b := newBench(t, int(r.Fd()), endless, 16)
	all := reads(10, 1, make([]byte, 10))
	b.Submit(all[:1]) // pending, so that a completion is to come
	b.Submit(all[1:5])
	if b.q.filled != 4 {
		t.Fatalf("%d are left to be submitted, want the four that were refused", b.q.filled)
	}
	var res [16]backstore.Result
	if n := b.Poll(res[:]); n != 0 || b.q.filled != 4 {
		t.Fatalf("%d ended, %d left", n, b.q.filled)
	}
	b.Submit(all[5:]) // nine together
	if b.q.filled != 0 {
		t.Fatalf("%d are left", b.q.filled)
	}
	if _, err := w.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	for tag, c := range b.collect(10) {
		if c != backstore.CodeOK {
			t.Errorf("request %d: %v", tag, c)
		}
	}
}
