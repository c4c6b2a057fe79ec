package plugintest

import (
	"context"
	"errors"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// What a remote store does, one request at a time. The powers count as far as the plugin has declared them.

// Info is what the plugin said when it opened the store, less the powers that the host has no way to.
func (r *remote) Info() backstore.Info {
	i := r.info
	i.Powers = r.Powers()
	return i
}

// Powers are those that the plugin has declared and the host can ask for.
func (r *remote) Powers() backstore.Powers {
	can := backstore.PowerUnmap | backstore.PowerWriteZeroes | backstore.PowerCompareAndWrite | backstore.PowerWriteSame
	if _, ok := any(r.store).(backstore.Resizer); ok {
		can |= backstore.PowerResize
	}
	if _, ok := any(r.store).(backstore.HealthReporter); ok {
		can |= backstore.PowerHealth
	}
	if _, ok := any(r.store).(backstore.Sanitizer); ok {
		can |= backstore.PowerSanitize
	}
	return r.info.Powers & can
}

// WatchSize implements backstore.Resizer.
func (r *remote) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	return coded(any(r.store).(backstore.Resizer).WatchSize(ctx, changed))
}

// Health implements backstore.HealthReporter.
func (r *remote) Health(ctx context.Context) (backstore.Health, error) {
	h, err := any(r.store).(backstore.HealthReporter).Health(ctx)
	return h, coded(err)
}

// coded makes what a plugin answered to a call the error of a store.
func coded(err error) error {
	var e *host.Error
	if errors.As(err, &e) {
		return &backstore.Error{Code: e.Code, Err: err}
	}
	return err
}

// Sanitize implements backstore.Sanitizer. The store has no queue meanwhile.
func (r *remote) Sanitize(ctx context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	if err := r.disconnect(); err != nil {
		return err
	}
	err := coded(any(r.store).(backstore.Sanitizer).Sanitize(ctx, method, progress))
	again, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return errors.Join(err, r.connect(again))
}

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
