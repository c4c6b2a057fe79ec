package plugintest

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// What a remote store does, one request at a time. The powers count as far as the plugin has declared them.

// Info is what the plugin said when it opened the store.
func (r *remote) Info() backstore.Info { return r.info }

// Powers are those that the plugin has declared and that travel as requests.
func (r *remote) Powers() backstore.Powers { return r.info.Powers }

// Read implements backstore.Store.
func (r *remote) Read(ctx context.Context, p []byte, off int64) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpRead, Data: p, Off: off})
}

// Write implements backstore.Store.
func (r *remote) Write(ctx context.Context, p []byte, off int64, flags backstore.Flags) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpWrite, Flags: flags, Data: p, Off: off})
}

// Flush implements backstore.Store.
func (r *remote) Flush(ctx context.Context) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpFlush})
}

// Unmap implements backstore.Unmapper.
func (r *remote) Unmap(ctx context.Context, off, n int64) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpUnmap, Off: off, N: n})
}

// WriteZeroes implements backstore.ZeroWriter.
func (r *remote) WriteZeroes(ctx context.Context, off, n int64, flags backstore.Flags) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpWriteZeroes, Flags: flags, Off: off, N: n})
}

// WriteSame implements backstore.SameWriter.
func (r *remote) WriteSame(ctx context.Context, block []byte, off, n int64, flags backstore.Flags) error {
	return r.call(ctx, backstore.Request{Op: backstore.OpWriteSame, Flags: flags, Data: block, Off: off, N: n})
}

// CompareAndWrite implements backstore.Comparer.
func (r *remote) CompareAndWrite(ctx context.Context, expect, data []byte, off int64, flags backstore.Flags) error {
	both := append(append(make([]byte, 0, len(expect)+len(data)), expect...), data...)
	return r.call(ctx, backstore.Request{Op: backstore.OpCompareAndWrite, Flags: flags, Data: both, Off: off})
}
