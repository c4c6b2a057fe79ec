package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/forbid"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// allocated is how many bytes of its file system a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// full makes a store of 4 MiB that has something everywhere.
func full(t *testing.T, engine string) (s backstore.Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "disk")
	s = openStore(t, map[string]string{"path": path, "size": "4MiB", "engine": engine})
	if err := s.Write(t.Context(), pattern(4<<20, 1), 0, backstore.FUA); err != nil {
		t.Fatal(err)
	}
	return s, path
}

func TestUnmapGivesBackAndWriteZeroesKeeps(t *testing.T) {
	for _, engine := range engines(t) {
		s, path := full(t, engine)
		was := allocated(t, path)
		zeroer := s.(backstore.ZeroWriter)
		if err := zeroer.WriteZeroes(t.Context(), 0, 4<<20, backstore.FUA); err != nil {
			t.Fatal(err)
		}
		if now := allocated(t, path); now < was {
			t.Errorf("%s: zeroes that must stay allocated have %d bytes of %d", engine, now, was)
		}
		if err := s.(backstore.Unmapper).Unmap(t.Context(), 0, 2<<20); err != nil {
			t.Fatal(err)
		}
		if now := allocated(t, path); now > was-2<<20 {
			t.Errorf("%s: after an unmap of a half %d bytes of %d are allocated", engine, now, was)
		}
		if err := zeroer.WriteZeroes(t.Context(), 0, 4<<20, backstore.MayUnmap); err != nil {
			t.Fatal(err)
		}
		if now := allocated(t, path); now > 64<<10 {
			t.Errorf("%s: after zeroes that may be unmapped %d bytes are allocated", engine, now)
		}
		st, err := os.Stat(path)
		if err != nil || st.Size() != 4<<20 {
			t.Errorf("%s: the size is %d, %v", engine, st.Size(), err)
		}
	}
}

func TestCompareAndWriteIsThePoolsOnly(t *testing.T) {
	for _, engine := range engines(t) {
		s, _ := full(t, engine)
		if got := backstore.PowersOf(s).Has(backstore.PowerCompareAndWrite); got != (engine == pool) {
			t.Errorf("%s: %v", engine, got)
		}
	}
}

func TestSanitizeOverwritesWhatThereIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	s := openStore(t, map[string]string{"path": path, "size": "64MiB"})
	if err := s.Write(t.Context(), pattern(4096, 1), 40<<20, backstore.FUA); err != nil {
		t.Fatal(err)
	}
	last := 0
	if err := s.(backstore.Sanitizer).Sanitize(t.Context(), backstore.SanitizeOverwrite, func(n int) { last = n }); err != nil || last != 1000 {
		t.Fatal(err, last)
	}
	got := pattern(4096, 2)
	if c := do(s, backstore.Request{Op: backstore.OpRead, Off: 40 << 20, Data: got}); c != backstore.CodeOK || string(got) != string(make([]byte, 4096)) {
		t.Errorf("%v, or not zeroes", c)
	}
	if n := allocated(t, path); n > 2<<20 {
		t.Errorf("overwriting 4 KiB in a sparse file has made it %d bytes large", n)
	}
}

func TestFileThatHasGrownIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	config := map[string]string{"path": path, "size": "1MiB"}
	s, err := Backstore{}.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	if s := openStore(t, config); s.Info().Blocks != 4096 {
		t.Errorf("%d blocks", s.Info().Blocks)
	}
}

func TestHeadroomIsToldBeforeWritesFail(t *testing.T) {
	for _, c := range []struct {
		missing     int64
		free, block uint64
		want        backstore.Condition
	}{
		{0, 0, 4096, backstore.ConditionGood},
		{-512, 0, 4096, backstore.ConditionGood},
		{4096, 2, 4096, backstore.ConditionGood},
		{8192, 1, 4096, backstore.ConditionDegraded},
		{1 << 62, ^uint64(0), 4096, backstore.ConditionGood},
		{1 << 62, 0, 1, backstore.ConditionDegraded},
	} {
		if h := headroom(c.missing, c.free, c.block); h.Condition != c.want || (h.Text == "") != (h.Condition == backstore.ConditionGood) {
			t.Errorf("%d bytes missing, %d blocks of %d free: %+v", c.missing, c.free, c.block, h)
		}
	}
}

// TestSystemWithoutFallocateWritesZeroes runs itself in a process where the kernel makes no holes, as on some file systems.
func TestSystemWithoutFallocateWritesZeroes(t *testing.T) {
	if os.Getenv("FILE_TEST_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSystemWithoutFallocateWritesZeroes$", "-test.v")
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
	if err := forbid.Call(unix.SYS_FALLOCATE, unix.EOPNOTSUPP); err != nil {
		t.Skipf("system calls cannot be forbidden here: %v", err)
	}
	s, path := full(t, pool)
	was := allocated(t, path)
	for name, do := range map[string]func() error{
		"unmap":        func() error { return s.(backstore.Unmapper).Unmap(t.Context(), 512, 3<<20) },
		"write zeroes": func() error { return s.(backstore.ZeroWriter).WriteZeroes(t.Context(), 512, 3<<20, backstore.FUA) },
	} {
		if err := s.Write(t.Context(), pattern(4<<20, 1), 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := pattern(4<<20, 2)
		if err := s.Read(t.Context(), got, 0); err != nil {
			t.Fatal(err)
		}
		want := pattern(4<<20, 1)
		clear(want[512 : 512+3<<20])
		if string(got) != string(want) {
			t.Errorf("%s: the content is not zeroes in the range and the pattern elsewhere", name)
		}
	}
	if now := allocated(t, path); now < was {
		t.Errorf("%d bytes of %d are allocated although there are no holes", now, was)
	}
}
