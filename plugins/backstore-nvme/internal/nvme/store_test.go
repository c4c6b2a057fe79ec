package nvme

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

// engines lists the engines that this system has; io_uring may really be missing.
func engines(t *testing.T) []string {
	t.Helper()
	if err := uring.Probe(); err != nil {
		t.Logf("without io_uring: %v", err)
		return []string{string(descriptor.Pool)}
	}
	return []string{string(descriptor.Pool), string(descriptor.IOUring)}
}

// The block device is the kernel's loop, and only what the controller says is made up.
func TestNamespacePassesTheKit(t *testing.T) {
	loopDevice(t, "512") // or skip as a whole
	for _, engine := range engines(t) {
		for format, sector := range map[int]string{0: "512", 4: "4096"} {
			t.Run(engine+" "+sector, func(t *testing.T) {
				a := newAnswers(loopBytes)
				a.ns[offFLBAS] = byte(format)
				setBlocks(a.ns, loopBytes>>a.ns[offFormats+4*format+2])
				backstoretest.Test(t, backstoretest.Subject{
					Backstore: Backstore{kernel: a.kernel()},
					Config: func(t testing.TB) map[string]string {
						dev, _ := loopDevice(t, sector)
						return map[string]string{"device": dev, "engine": engine, "eui": qemuEUI}
					},
					ReadOnly: func(config map[string]string) map[string]string {
						c := maps.Clone(config)
						c["read_only"] = "true"
						return c
					},
				})
			})
		}
	}
}

// open opens a loop device with a controller that answers a.
func open(t *testing.T, a *answers, m map[string]string) (backstore.Store, error) {
	t.Helper()
	s, err := Backstore{kernel: a.kernel()}.Open(t.Context(), m)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func TestMountedDeviceIsRefusedAtOnceWithItsMountPoint(t *testing.T) {
	dev, _ := loopDevice(t, "512")
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", dev).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4 is needed: %v: %s", err, out)
	}
	at := mount(t, dev, "ext4")
	_, err := Backstore{kernel: newAnswers(loopBytes).kernel()}.Open(t.Context(), map[string]string{"device": dev}) // no deadline
	if err == nil || !strings.Contains(err.Error(), dev+" is mounted on "+at+"; unmount it first") {
		t.Errorf("%v", err)
	}
}

func TestDeviceThatAProcessHoldsIsWaitedForAndRefusedInTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags int
		lock  bool
		want  string
	}{
		{"exclusively", os.O_RDWR | unix.O_EXCL, false, "fuser -v"},
		{"with the fence", os.O_RDWR, true, "another process has it open as a backstore"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dev, _ := loopDevice(t, "512")
			f, err := os.OpenFile(dev, tt.flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tt.lock {
				if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
					t.Fatal(err)
				}
			}
			b, m := Backstore{kernel: newAnswers(loopBytes).kernel()}, map[string]string{"device": dev}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if _, err := b.Open(ctx, m); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("while held: %v", err)
			}
			opened := make(chan error)
			go func() {
				s, err := b.Open(t.Context(), m)
				if err == nil {
					err = s.Close()
				}
				opened <- err
			}()
			f.Close()
			if err := <-opened; err != nil {
				t.Errorf("after release: %v", err)
			}
		})
	}
}

func TestOpenStoreKeepsEverybodyElseAway(t *testing.T) {
	dev, _ := loopDevice(t, "512")
	if _, err := open(t, newAnswers(loopBytes), map[string]string{"device": dev}); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(dev, os.O_RDONLY|unix.O_EXCL, 0); !errors.Is(err, unix.EBUSY) {
		f.Close()
		t.Errorf("a second exclusive open: %v", err)
	}
}

func TestWhatIsNoNamespaceIsRefusedWithTheMend(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for device, want := range map[string]string{
		file:             "is no block device",
		"/dev/null":      "is no block device",
		file + ".absent": "no such file",
	} {
		if _, err := open(t, newAnswers(loopBytes), map[string]string{"device": device}); err == nil || !strings.Contains(err.Error(), device+": "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dev, _ := loopDevice(t, "512")
	if _, err := (Backstore{}).Open(t.Context(), map[string]string{"device": dev}); err == nil || !strings.Contains(err.Error(), dev+": is no NVMe namespace; backstore-file") {
		t.Errorf("a loop device: %v", err)
	}
	if _, err := open(t, newAnswers(loopBytes), map[string]string{"device": dev, "serial": "other"}); err == nil || !strings.Contains(err.Error(), `its serial is "gosrptnvme", want "other"`) {
		t.Errorf("another one: %v", err)
	}
	if _, err := open(t, newAnswers(2*loopBytes), map[string]string{"device": dev}); err == nil || !strings.Contains(err.Error(), "the kernel says 4194304") {
		t.Errorf("another size: %v", err)
	}
	// None of these has kept it.
	if _, err := open(t, newAnswers(loopBytes), map[string]string{"device": dev}); err != nil {
		t.Error(err)
	}
}

func TestPartitionIsRefused(t *testing.T) {
	dev, _ := loopDevice(t, "512")
	st, err := os.Stat(dev)
	if err != nil {
		t.Fatal(err)
	}
	rdev, err := blockDevice(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := newAnswers(loopBytes).kernel()
	k.sys = tree(t, map[string]string{"dev/block/" + number(rdev) + "/partition": "1\n"})
	if _, err := (Backstore{kernel: k}).Open(t.Context(), map[string]string{"device": dev}); err == nil || !strings.Contains(err.Error(), "name the whole namespace") {
		t.Errorf("%v", err)
	}
}

func TestNamespaceThatTakesNoWritesIsReadOnlyOnEveryWay(t *testing.T) {
	for _, engine := range engines(t) {
		a := newAnswers(loopBytes)
		a.ns[offNSATTR] = 1
		dev, _ := loopDevice(t, "512")
		s, err := open(t, a, map[string]string{"device": dev, "engine": engine})
		if err != nil {
			t.Fatal(err)
		}
		if i := s.Info(); !i.ReadOnly || !strings.Contains(i.Notice, "write protected") {
			t.Errorf("%s: %+v", engine, i)
		}
		if c := do(t, s, backstore.Request{Op: backstore.OpWrite, Data: directio.AlignedBlock(512)}); c != backstore.CodeReadOnly {
			t.Errorf("%s: write: %v", engine, c)
		}
		if c := do(t, s, backstore.Request{Op: backstore.OpRead, Data: directio.AlignedBlock(512)}); c != backstore.CodeOK {
			t.Errorf("%s: read: %v", engine, c)
		}
	}
}

// A loop device whose medium shrank is as a namespace that is gone: the kernel has set its size to less.
func TestNamespaceThatIsGoneIsUnavailable(t *testing.T) {
	for _, engine := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			dev, file := loopDevice(t, "512")
			s, err := open(t, newAnswers(loopBytes), map[string]string{"device": dev, "engine": engine})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 1<<20); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("losetup", "--set-capacity", dev).CombinedOutput(); err != nil {
				t.Fatalf("losetup --set-capacity: %v: %s", err, out)
			}
			for _, op := range []backstore.Op{backstore.OpRead, backstore.OpWrite} {
				if c := do(t, s, backstore.Request{Op: op, Off: 2 << 20, Data: directio.AlignedBlock(4096)}); c != backstore.CodeUnavailable {
					t.Errorf("op %d: %v", op, c)
				}
			}
		})
	}
}

func TestCodesOfErrors(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	there, gone := &store{f: f}, &store{f: f}
	there.io.SetSize(4096)
	gone.io.SetSize(8192)
	tests := []struct {
		err         error
		there, gone backstore.Code
	}{
		{unix.EIO, backstore.CodeIO, backstore.CodeUnavailable},
		{unix.ENODATA, backstore.CodeIO, backstore.CodeUnavailable}, // the medium's error
		{io.ErrUnexpectedEOF, backstore.CodeIO, backstore.CodeUnavailable},
		{unix.ENOSPC, backstore.CodeNoSpace, backstore.CodeUnavailable},
		{unix.ENODEV, backstore.CodeUnavailable, backstore.CodeUnavailable},
		{unix.ENXIO, backstore.CodeUnavailable, backstore.CodeUnavailable},
		{unix.ETIMEDOUT, backstore.CodeUnavailable, backstore.CodeUnavailable},
		{unix.ENOLINK, backstore.CodeUnavailable, backstore.CodeUnavailable},
		{unix.EBADF, backstore.CodeReadOnly, backstore.CodeReadOnly},
	}
	for _, tt := range tests {
		if got := there.code(tt.err); got != tt.there {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.there)
		}
		if got := gone.code(tt.err); got != tt.gone {
			t.Errorf("%v of one that is gone: %v, want %v", tt.err, got, tt.gone)
		}
	}
}

// do makes one request, by an engine of its own if the store has engines.
func do(t *testing.T, s backstore.Store, r backstore.Request) backstore.Code {
	t.Helper()
	e, ok := s.(backstore.Engines)
	switch {
	case ok:
		return drive(t, e, r)
	case r.Op == backstore.OpRead:
		return backstore.CodeOf(s.Read(t.Context(), r.Data, r.Off))
	}
	return backstore.CodeOf(s.Write(t.Context(), r.Data, r.Off, r.Flags))
}

func drive(t *testing.T, s backstore.Engines, r backstore.Request) backstore.Code {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(wake)
	e, err := s.NewEngine(t.Context(), wake, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Submit([]backstore.Request{r})
	var res [1]backstore.Result
	for e.Poll(res[:]) == 0 {
		if _, err := unix.Read(wake, make([]byte, 8)); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	return res[0].Code
}
