package descriptor

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func TestShortAndInterruptedTransfersAreContinued(t *testing.T) {
	calls, src := 0, make([]byte, 10000)
	rand.New(rand.NewSource(5)).Read(src)
	got := make([]byte, len(src))
	err := transfer(got, 0, func(p []byte, off int64) (int, error) {
		if calls++; calls%7 == 0 {
			return 0, unix.EINTR
		}
		return copy(p[:(len(p)+1)/2], src[off:]), nil
	})
	if err != nil || !bytes.Equal(got, src) {
		t.Errorf("%v, equal %v after %d calls", err, bytes.Equal(got, src), calls)
	}
}

// shortFile is a file of 8192 bytes, of which a store is said to have 16384.
func shortFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWhatLiesOutsideIsNotTouched(t *testing.T) {
	f := shortFile(t)
	d := File{FD: int(f.Fd())}
	d.SetSize(8192)
	for _, off := range []int64{-512, 8192, 7681, math.MaxInt64, math.MinInt64} {
		for what, err := range map[string]error{
			"read": d.Read(make([]byte, 512), off), "write": d.Write(make([]byte, 512), off, backstore.FUA),
		} {
			if backstore.CodeOf(err) != backstore.CodeRange {
				t.Errorf("%s at %d: %v", what, off, err)
			}
		}
	}
	if st, err := f.Stat(); err != nil || st.Size() != 8192 {
		t.Errorf("the file has changed: %v, %v", st, err)
	}
	if err := errors.Join(d.Read(make([]byte, 512), 7680), d.Write(make([]byte, 512), 7680, 0), d.Flush()); err != nil {
		t.Errorf("the last block: %v", err)
	}
}

func TestOwnersCodeIsTheAnswer(t *testing.T) {
	var seen error
	f := shortFile(t)
	d := File{FD: int(f.Fd()), Code: func(err error) backstore.Code {
		seen = err
		return backstore.CodeBusy
	}}
	d.SetSize(16384)
	if err := d.Read(make([]byte, 512), 8192); backstore.CodeOf(err) != backstore.CodeBusy || seen == nil {
		t.Errorf("call: %v, asked about %v", err, seen)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(wake)
	if ring, _ := Auto.UseRing(); !ring {
		t.Skip("this system has no io_uring")
	}
	e, err := d.NewEngine(wake, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	seen = nil
	e.Submit([]backstore.Request{{Op: backstore.OpRead, Off: 8192, Data: make([]byte, 512)}})
	var res [1]backstore.Result
	for e.Poll(res[:]) == 0 {
		if _, err := unix.Read(wake, make([]byte, 8)); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	if res[0].Code != backstore.CodeBusy || seen == nil {
		t.Errorf("engine: %v, asked about %v", res[0].Code, seen)
	}
}

func TestEngineSettingIsOneOfThree(t *testing.T) {
	for _, s := range []string{"auto", "io_uring", "pool"} {
		if e, err := ParseEngine(s); err != nil || string(e) != s {
			t.Errorf("%s: %q, %v", s, e, err)
		}
	}
	if _, err := ParseEngine("warp"); err == nil {
		t.Error("warp is an engine")
	}
	if ring, err := Pool.UseRing(); ring || err != nil {
		t.Errorf("pool: %v, %v", ring, err)
	}
}
