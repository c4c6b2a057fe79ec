package load

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memory is a device in memory with faults.
type memory struct {
	mu     sync.Mutex
	data   []byte
	broken error
	// flip spoils what is read from this offset on, if it is positive.
	flip int64
	most atomic.Int64
	now  atomic.Int64
}

func (m *memory) Size() int64 { return int64(len(m.data)) }

func (m *memory) Buffers(n, size int) ([][]byte, error) {
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = make([]byte, size)
	}
	return bufs, nil
}

func (m *memory) Submit(io *IO) {
	m.most.Store(max(m.most.Load(), m.now.Add(1)))
	go func() {
		m.mu.Lock()
		if io.Write {
			copy(m.data[io.Off:], io.Buf)
		} else {
			copy(io.Buf, m.data[io.Off:])
			if m.flip > 0 && io.Off >= m.flip {
				io.Buf[3] ^= 1
			}
		}
		err := m.broken
		m.mu.Unlock()
		m.now.Add(-1)
		io.Done(io, err)
	}()
}

func TestRunKeepsTheDepthAndCountsWhatItDid(t *testing.T) {
	m := &memory{data: make([]byte, 1<<20)}
	r, err := Run(t.Context(), m, Job{Pattern: Pattern{Random: true}, Block: 4096, Depth: 8, Range: 1 << 20, Time: 20 * time.Millisecond})
	if err != nil || r.IOs == 0 || r.IOPS <= 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if m.most.Load() > 8 {
		t.Errorf("%d outstanding at once", m.most.Load())
	}
}

func TestRunEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	m := &memory{data: make([]byte, 1<<20), broken: broken}
	if _, err := Run(t.Context(), m, Job{Block: 4096, Depth: 4, Range: 1 << 20, Time: time.Hour}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestRunEndsWhenItsContextDoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	m := &memory{data: make([]byte, 1<<20)}
	if _, err := Run(ctx, m, Job{Block: 4096, Depth: 4, Range: 1 << 20, Time: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestBlockLargerThanTheRangeIsRefused(t *testing.T) {
	if _, err := Run(t.Context(), &memory{data: make([]byte, 512)}, Job{Block: 4096, Depth: 1, Range: 1 << 20}); err == nil {
		t.Error("no error")
	}
}

func TestVerifyPassesOnATrueDevice(t *testing.T) {
	m := &memory{data: make([]byte, 1<<20)}
	var last int64
	err := Verify(t.Context(), m, Job{Block: 65536, Depth: 4, Range: 1 << 20}, 7, func(moved, all int64) {
		m.mu.Lock()
		last = max(last, moved)
		m.mu.Unlock()
		if all != 2<<20 {
			t.Errorf("all is %d", all)
		}
	})
	if err != nil || last != 2<<20 {
		t.Errorf("%v after %d bytes", err, last)
	}
}

func TestVerifyFindsOneWrongBit(t *testing.T) {
	m := &memory{data: make([]byte, 1<<20), flip: 512 << 10}
	err := Verify(t.Context(), m, Job{Block: 4096, Depth: 4, Range: 1 << 20}, 7, nil)
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "byte 3") {
		t.Errorf("got %v", err)
	}
}

func TestVerifyTellsStaleDataFromNew(t *testing.T) {
	old, fresh := make([]byte, 4096), make([]byte, 4096)
	fill(old, 8192, 1)
	fill(fresh, 8192, 2)
	for i := 8; i < len(old); i += 16 {
		if string(old[i:i+8]) == string(fresh[i:i+8]) {
			t.Fatalf("passes 1 and 2 are alike at byte %d", i)
		}
	}
}

func TestRawFileIsReadAndWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Verify(t.Context(), f, Job{Block: 4096, Depth: 4, Range: 1 << 20}, 3, nil); err != nil {
		t.Error(err)
	}
	if r, err := Run(t.Context(), f, Job{Pattern: Pattern{Random: true}, Block: 4096, Depth: 2, Range: 1 << 20, Time: 10 * time.Millisecond}); err != nil || r.IOs == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPatternNames(t *testing.T) {
	for name, want := range map[string]Pattern{"randread": {Random: true}, "randwrite": {true, true}, "read": {}, "write": {Write: true}} {
		if got, err := ParsePattern(name); got != want || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ParsePattern("sideways"); err == nil {
		t.Error("sideways is no pattern")
	}
}
