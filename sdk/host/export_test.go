package host

// Unary makes the process's later slow links make single calls instead of using a stream.
func (p *Process) Unary() { p.stream = false }

// ErrBell is errBell.
var ErrBell = errBell

// Offset is offset.
var Offset = offset

// Untaken tells whether the plugin has left requests in the ring, or does not have it yet.
func (q *Queue) Untaken() bool { return q.link == nil || q.link.pulse().waiting }
