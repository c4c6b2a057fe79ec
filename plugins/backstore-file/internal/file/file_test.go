package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// The settings of engine that tests choose.
const (
	pool    = string(descriptor.Pool)
	ioUring = string(descriptor.IOUring)
)

// openStore opens a store and closes it at the end of the test.
func openStore(t *testing.T, m map[string]string) backstore.Store {
	t.Helper()
	s, err := Backstore{}.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// engines lists the engines that this system has; io_uring may really be missing.
func engines(t *testing.T) []string {
	t.Helper()
	if err := uring.Probe(); err != nil {
		t.Logf("without io_uring: %v", err)
		return []string{pool}
	}
	return []string{pool, ioUring}
}

// do makes one request, by an engine of its own if the store has engines.
func do(s backstore.Store, r backstore.Request) backstore.Code {
	if e, ok := s.(backstore.Engines); ok {
		return doEngine(e, []backstore.Request{r})[0]
	}
	ctx := context.Background()
	switch r.Op {
	case backstore.OpRead:
		return backstore.CodeOf(s.Read(ctx, r.Data, r.Off))
	case backstore.OpWrite:
		return backstore.CodeOf(s.Write(ctx, r.Data, r.Off, r.Flags))
	}
	return backstore.CodeOf(s.Flush(ctx))
}

// doEngine makes requests in one batch. A request that is answered twice or not at all panics or hangs.
func doEngine(s backstore.Engines, reqs []backstore.Request) []backstore.Code {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	defer unix.Close(wake)
	e, err := s.NewEngine(context.Background(), wake, len(reqs))
	if err != nil {
		panic(err)
	}
	defer e.Close()
	codes, seen := make([]backstore.Code, len(reqs)), make([]bool, len(reqs))
	for i := range reqs {
		reqs[i].Tag = uint64(i)
	}
	e.Submit(reqs)
	res := make([]backstore.Result, 7)
	for left := len(reqs); left > 0; {
		n := e.Poll(res)
		for _, r := range res[:n] {
			if seen[r.Tag] {
				panic("a request was answered twice")
			}
			codes[r.Tag], seen[r.Tag] = r.Code, true
		}
		if left -= n; n == 0 {
			var count [8]byte
			if _, err := unix.Read(wake, count[:]); err != nil && err != unix.EINTR {
				panic(err)
			}
		}
	}
	return codes
}

func pattern(n int, seed int64) []byte {
	b := directio.AlignedBlock(n)
	rand.New(rand.NewSource(seed)).Read(b)
	return b
}

func TestWhatIsWrittenIsReadBackAndStandsInTheFile(t *testing.T) {
	for _, engine := range engines(t) {
		for _, direct := range []string{auto, off} {
			t.Run(engine+" direct "+direct, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "disk")
				s := openStore(t, map[string]string{"path": path, "size": "1MiB", "engine": engine, "direct": direct})
				for i, at := range []struct{ off, n int }{{0, 512}, {512, 4096}, {1<<20 - 512, 512}, {8192, 65536}} {
					data, got := pattern(at.n, int64(i)), directio.AlignedBlock(at.n)
					flags := backstore.Flags(i % 2) // every other one with FUA
					if c := do(s, backstore.Request{Op: backstore.OpWrite, Flags: flags, Off: int64(at.off), Data: data}); c != backstore.CodeOK {
						t.Fatalf("write %v: %v", at, c)
					}
					if c := do(s, backstore.Request{Op: backstore.OpRead, Off: int64(at.off), Data: got}); c != backstore.CodeOK || !bytes.Equal(got, data) {
						t.Fatalf("read %v: %v, equal %v", at, c, bytes.Equal(got, data))
					}
					if c := do(s, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
						t.Fatalf("flush: %v", c)
					}
					raw, err := os.ReadFile(path)
					if err != nil || !bytes.Equal(raw[at.off:at.off+at.n], data) {
						t.Fatalf("file differs at %v (%v)", at, err)
					}
				}
			})
		}
	}
}

func TestParallelWritesLandWhereTheyBelong(t *testing.T) {
	const workers, rounds, blocks = 16, 40, 2048
	for _, engine := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			s := openStore(t, map[string]string{"path": filepath.Join(t.TempDir(), "disk"), "size": "1MiB", "engine": engine})
			parallelWrites(t, s, workers, rounds, blocks)
		})
	}
}

// parallelWrites lets each worker own every workers-th block, write stamps, and verify the whole store.
func parallelWrites(t *testing.T, s backstore.Store, workers, rounds, blocks int) {
	t.Helper()
	stamps := make([]byte, blocks)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng, buf := rand.New(rand.NewSource(int64(w))), directio.AlignedBlock(512)
			for range rounds {
				b := rng.Intn(blocks/workers)*workers + w
				stamps[b] = byte(rng.Intn(255) + 1)
				for i := range buf {
					buf[i] = stamps[b]
				}
				if c := do(s, backstore.Request{Op: backstore.OpWrite, Off: int64(b) * 512, Data: buf}); c != backstore.CodeOK {
					t.Errorf("write of block %d: %v", b, c)
				}
			}
		})
	}
	wg.Wait()
	all := directio.AlignedBlock(blocks * 512)
	if c := do(s, backstore.Request{Op: backstore.OpRead, Data: all}); c != backstore.CodeOK {
		t.Fatal(c)
	}
	for b, want := range stamps {
		if all[b*512] != want || all[b*512+511] != want {
			t.Fatalf("block %d holds %d..%d, want %d", b, all[b*512], all[b*512+511], want)
		}
	}
}

func TestPartialBlocksOfACoarseDeviceLoseNothing(t *testing.T) {
	s := openStore(t, map[string]string{"path": filepath.Join(t.TempDir(), "disk"), "size": "1MiB", "engine": pool}).(poolStore).store
	s.align = 4096 // as on a device with sectors of 4096 bytes
	parallelWrites(t, s, 16, 40, 2048)
	data, got := pattern(3*512, 7), directio.AlignedBlock(3*512)
	if err := s.Write(t.Context(), data, 7*512, backstore.FUA); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), got, 7*512); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read across a unit's edge: %v, equal %v", err, bytes.Equal(got, data))
	}
}

func TestDeepBatchCompletesWhole(t *testing.T) {
	if len(engines(t)) == 1 {
		t.Skip("this kernel has no io_uring")
	}
	s := openStore(t, map[string]string{"path": filepath.Join(t.TempDir(), "disk"), "size": "1MiB", "engine": ioUring})
	const n = 4096 // as many as a queue of the host can have
	reqs, buf := make([]backstore.Request, n), directio.AlignedBlock(n*512)
	for i := range reqs {
		reqs[i] = backstore.Request{Op: backstore.OpRead, Off: int64(i % 2048 * 512), Data: buf[i*512 : (i+1)*512]}
	}
	for i, c := range doEngine(s.(backstore.Engines), reqs) {
		if c != backstore.CodeOK {
			t.Fatalf("request %d: %v", i, c)
		}
	}
}

func TestSparseFileIsMadeWithoutBlocksAndWithItsExactSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	s := openStore(t, map[string]string{"path": path, "size": fmt.Sprint(1<<30 + 512)})
	if i := s.Info(); i.Blocks != 1<<21+1 || i.BlockSize != 512 {
		t.Errorf("info %+v", i)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if used := st.Sys().(*syscall.Stat_t).Blocks; used > 16 || st.Size() != 1<<30+512 {
		t.Errorf("size %d, %d blocks in use", st.Size(), used)
	}
}

func TestTailThatIsNoWholeBlockIsNeverTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	const size = 1<<20 + 101
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xaa}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, map[string]string{"path": path})
	if got := s.Info().Blocks; got != 2048 {
		t.Fatalf("%d blocks", got)
	}
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Off: 2047 * 512, Data: pattern(512, 1)}); c != backstore.CodeOK {
		t.Fatal(c)
	}
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) != size || !bytes.Equal(raw[1<<20:], bytes.Repeat([]byte{0xaa}, 101)) {
		t.Errorf("tail changed; %d bytes, %v", len(raw), err)
	}
}

func TestFileCutShortAnswersAnErrorInsteadOfLooping(t *testing.T) {
	for _, engine := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk")
			s := openStore(t, map[string]string{"path": path, "size": "1MiB", "engine": engine})
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
			if c := do(s, backstore.Request{Op: backstore.OpRead, Off: 65536, Data: directio.AlignedBlock(4096)}); c != backstore.CodeIO {
				t.Errorf("beyond the end: %v", c)
			}
			if c := do(s, backstore.Request{Op: backstore.OpRead, Off: 0, Data: directio.AlignedBlock(8192)}); c != backstore.CodeIO {
				t.Errorf("across the end: %v", c)
			}
		})
	}
}

func TestFullFileSystemIsNoSpaceAndHealsWithoutReopening(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("t", dir, "tmpfs", 0, "size=1M"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	s, err := Backstore{}.Open(t.Context(), map[string]string{"path": filepath.Join(dir, "disk"), "size": "8MiB"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	big := pattern(2<<20, 1)
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Data: big}); c != backstore.CodeNoSpace {
		t.Errorf("full: %v", c)
	}
	if err := unix.Mount("t", dir, "tmpfs", unix.MS_REMOUNT, "size=16M"); err != nil {
		t.Fatal(err)
	}
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Data: big}); c != backstore.CodeOK {
		t.Errorf("after room was made: %v", c)
	}
}

func TestFileSystemWithoutDirectIOFallsBackWithOneLineOrRefuses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting ramfs needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("r", dir, "ramfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	path := filepath.Join(dir, "disk")
	_, err := Backstore{}.Open(t.Context(), map[string]string{"path": path, "size": "1MiB", "direct": on})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "direct I/O") {
		t.Errorf("direct: on: %v", err)
	}
	s, err := Backstore{}.Open(t.Context(), map[string]string{"path": path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := s.Info().Notice; !strings.Contains(n, "buffered") || strings.Contains(n, "\n") {
		t.Errorf("notice %q", n)
	}
	data, got := pattern(4096, 3), directio.AlignedBlock(4096)
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Data: data}); c != backstore.CodeOK {
		t.Error(c)
	}
	if c := do(s, backstore.Request{Op: backstore.OpRead, Data: got}); c != backstore.CodeOK || !bytes.Equal(got, data) {
		t.Error("buffered data differs")
	}
}

func TestSecondOpenWaitsForTheFirstAndSaysWhoHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	first, err := Backstore{}.Open(t.Context(), map[string]string{"path": path, "size": "1MiB"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = Backstore{}.Open(ctx, map[string]string{"path": path})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("while held: %v", err)
	}
	opened := make(chan error)
	go func() {
		s, err := Backstore{}.Open(t.Context(), map[string]string{"path": path})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("after release: %v", err)
	}
}

func TestWrongConfigurationNamesTheSetting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]map[string]string{
		"path":         {},
		"path: is":     {"path": ""},
		"size":         {"path": path, "size": "big"},
		"block_size":   {"path": path, "block_size": "1000"},
		"direct":       {"path": path, "direct": "maybe"},
		"engine":       {"path": path, "engine": "warp"},
		"read_only":    {"path": path, "read_only": "perhaps"},
		"color":        {"path": path, "color": "red"},
		"no such file": {"path": path + ".absent"},
		"size says":    {"path": path, "size": "1MiB"},
		"regular file": {"path": t.TempDir(), "read_only": "true"},
		"less than":    {"path": emptyFile(t)},
		"is not in 1":  {"path": path, "size": "0"},
	}
	for want, m := range cases {
		if _, err := (Backstore{}).Open(t.Context(), m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want it to say %q", m, err, want)
		}
	}
}

func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadOnlyStoreSaysSoAndRefusesWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, map[string]string{"path": path, "read_only": "true"})
	if !s.Info().ReadOnly {
		t.Error("not marked")
	}
	if c := do(s, backstore.Request{Op: backstore.OpWrite, Data: pattern(512, 1)}); c != backstore.CodeReadOnly {
		t.Errorf("write: %v", c)
	}
}
