package backstoretest

import (
	"context"
	"errors"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Memory is a Store in memory: a reference, and a stand-in where a test needs a store that works.
type Memory struct {
	info backstore.Info
	mu   sync.RWMutex
	data []byte
}

// NewMemory makes a store of zeroes.
func NewMemory(info backstore.Info) *Memory {
	return &Memory{info: info, data: make([]byte, info.Blocks*uint64(info.BlockSize))}
}

// Info describes the store.
func (m *Memory) Info() backstore.Info { return m.info }

func (m *Memory) check(n int, off int64) error {
	size := int64(len(m.data))
	switch bs := int64(m.info.BlockSize); {
	case off < 0 || off > size || int64(n) > size-off:
		return &backstore.Error{Code: backstore.CodeRange}
	case off%bs != 0 || int64(n)%bs != 0:
		return &backstore.Error{Code: backstore.CodeInvalid, Err: errors.New("not whole blocks")}
	}
	return nil
}

// Read fills p.
func (m *Memory) Read(_ context.Context, p []byte, off int64) error {
	if err := m.check(len(p), off); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	copy(p, m.data[off:])
	return nil
}

// Write stores p.
func (m *Memory) Write(_ context.Context, p []byte, off int64, flags backstore.Flags) error {
	if m.info.ReadOnly {
		return &backstore.Error{Code: backstore.CodeReadOnly}
	}
	if flags&backstore.FUA != 0 && !m.info.FUA {
		return &backstore.Error{Code: backstore.CodeNotSupported}
	}
	if err := m.check(len(p), off); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(m.data[off:], p)
	return nil
}

// Flush has nothing to do.
func (m *Memory) Flush(context.Context) error { return nil }

// Close ends the store.
func (m *Memory) Close() error { return nil }

// AsyncMemory is a Memory that takes requests through Submit, and completes them there and then.
type AsyncMemory struct{ *Memory }

// Submit runs the requests.
func (m AsyncMemory) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	ctx := context.Background()
	for i := range reqs {
		r := &reqs[i]
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
		done(backstore.Result{Tag: r.Tag, Code: backstore.CodeOf(err)})
	}
}
