package bridge

import "io"

// stderr stands between a plugin's standard error and go-plugin's reader of log entries.
type stderr struct {
	io.ReadCloser // what go-plugin reads
	src           io.ReadCloser
	w             *io.PipeWriter
	done          chan struct{} // closed when src has ended
}

func newStderr(src io.ReadCloser, b *budget, e *evidence) *stderr {
	r, w := io.Pipe()
	s := &stderr{ReadCloser: r, src: src, w: w, done: make(chan struct{})}
	l := newErrors(w, b, e)
	go func() {
		_, _ = io.Copy(l, src) // until the pipe is closed, on one side or the other
		l.flush()
		w.Close()
		close(s.done)
	}()
	return s
}
