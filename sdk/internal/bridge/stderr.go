package bridge

import (
	"io"

	"github.com/hashicorp/go-hclog"
)

// stderr stands between a plugin's standard error and go-plugin's reader of log entries.
type stderr struct {
	io.ReadCloser // what go-plugin reads
	src           io.ReadCloser
	w             *io.PipeWriter
	done          chan struct{} // closed when src has ended
}

func newStderr(src io.ReadCloser, log hclog.Logger, b *budget, e *evidence) *stderr {
	r, w := io.Pipe()
	s := &stderr{ReadCloser: r, src: src, w: w, done: make(chan struct{})}
	l := newErrors(w, log, b, e)
	go func() {
		_, _ = io.Copy(l, src) // until the pipe is closed, on one side or the other
		l.flush()
		w.Close()
		close(s.done)
	}()
	return s
}

// discreet keeps go-plugin from logging a line for each piece of what a plugin prints.
type discreet struct{ hclog.Logger }

func (d discreet) Named(name string) hclog.Logger {
	if name == "stdio" {
		return hclog.NewNullLogger()
	}
	return d.Logger.Named(name)
}
