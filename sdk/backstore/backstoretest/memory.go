package backstoretest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"syscall"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Memory is a Store in memory with every power: a reference, and a stand-in where a test needs a store that works.
type Memory struct {
	mu      sync.RWMutex
	info    backstore.Info
	data    []byte
	resized chan struct{} // has room for one
}

// NewMemory makes a store of zeroes.
func NewMemory(info backstore.Info) *Memory {
	return &Memory{
		info: info, data: make([]byte, info.Blocks*uint64(info.BlockSize)), resized: make(chan struct{}, 1),
	}
}

// Info describes the store.
func (m *Memory) Info() backstore.Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.info
}

// check is called with mu held.
func (m *Memory) check(n, off int64) error {
	size := int64(len(m.data))
	switch bs := int64(m.info.BlockSize); {
	case off < 0 || n < 0 || off > size || n > size-off:
		return &backstore.Error{Code: backstore.CodeRange}
	case off%bs != 0 || n%bs != 0:
		return &backstore.Error{Code: backstore.CodeInvalid, Err: errors.New("not whole blocks")}
	}
	return nil
}

// Read fills p.
func (m *Memory) Read(_ context.Context, p []byte, off int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.check(int64(len(p)), off); err != nil {
		return err
	}
	copy(p, m.data[off:])
	return nil
}

// Write stores p.
func (m *Memory) Write(_ context.Context, p []byte, off int64, flags backstore.Flags) error {
	return m.change(off, int64(len(p)), flags, func(is []byte) error {
		copy(is, p)
		return nil
	})
}

// change has f change n bytes from off, alone.
func (m *Memory) change(off, n int64, flags backstore.Flags, f func(is []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.info.ReadOnly {
		return &backstore.Error{Code: backstore.CodeReadOnly}
	}
	if flags&backstore.FUA != 0 && !m.info.FUA {
		return &backstore.Error{Code: backstore.CodeNotSupported}
	}
	if err := m.check(n, off); err != nil {
		return err
	}
	return f(m.data[off : off+n])
}

// Flush has nothing to do.
func (m *Memory) Flush(context.Context) error { return nil }

// Close ends the store.
func (m *Memory) Close() error { return nil }

// AsyncMemory is a Memory that takes requests through Submit, and completes them there and then.
type AsyncMemory struct{ *Memory }

// Submit runs the requests.
func (m AsyncMemory) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	for i := range reqs {
		done(m.do(&reqs[i]))
	}
}

func (m *Memory) do(r *backstore.Request) backstore.Result {
	ctx := context.Background()
	var err error
	switch r.Op {
	case backstore.OpRead:
		err = m.Read(ctx, r.Data, r.Off)
	case backstore.OpWrite:
		err = m.Write(ctx, r.Data, r.Off, r.Flags)
	case backstore.OpFlush:
		err = m.Flush(ctx)
	default:
		err = &backstore.Error{Code: backstore.CodeNotSupported}
	}
	return backstore.Result{Tag: r.Tag, Code: backstore.CodeOf(err)}
}

// EngineMemory is a Memory with Engines. They do requests at once, and return them from the next Poll.
type EngineMemory struct{ *Memory }

// NewEngine makes an engine.
func (m EngineMemory) NewEngine(_ context.Context, wake, depth int) (backstore.Engine, error) {
	return &memoryEngine{memory: m.Memory, wake: wake, ended: make([]backstore.Result, 0, depth)}, nil
}

var one = func() (b [8]byte) { binary.NativeEndian.PutUint64(b[:], 1); return }()

type memoryEngine struct {
	memory *Memory
	wake   int
	ended  []backstore.Result
}

func (e *memoryEngine) Submit(reqs []backstore.Request) {
	for i := range reqs {
		e.ended = append(e.ended, e.memory.do(&reqs[i]))
	}
	if len(reqs) > 0 {
		_, _ = syscall.Write(e.wake, one[:]) // a full counter is a wake-up too
	}
}

func (e *memoryEngine) Poll(res []backstore.Result) int {
	n := copy(res, e.ended)
	e.ended = e.ended[:copy(e.ended, e.ended[n:])]
	return n
}

func (e *memoryEngine) Close() error { return nil }
