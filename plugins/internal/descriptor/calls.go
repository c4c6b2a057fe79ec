package descriptor

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// calls is a backstore.Engine that has done a request when Submit returns: for a store in which no call waits for a medium.
type calls struct {
	st    backstore.Store
	ended []backstore.Result // those that Poll has not returned, from first on
	first int
}

// NewCalls makes an engine of a store's own calls, with room for depth requests. The store stays the caller's.
func NewCalls(st backstore.Store, depth int) backstore.Engine {
	return &calls{st: st, ended: make([]backstore.Result, 0, depth)}
}

// Submit implements backstore.Engine.
func (c *calls) Submit(reqs []backstore.Request) {
	c.ended = append(c.ended[:0], c.ended[c.first:]...)
	c.first = 0
	for i := range reqs {
		c.ended = append(c.ended, backstore.Result{Tag: reqs[i].Tag, Code: backstore.CodeOf(c.do(&reqs[i]))})
	}
}

func (c *calls) do(r *backstore.Request) error {
	ctx := context.Background()
	switch r.Op {
	case backstore.OpRead:
		return c.st.Read(ctx, r.Data, r.Off)
	case backstore.OpWrite:
		return c.st.Write(ctx, r.Data, r.Off, r.Flags)
	case backstore.OpFlush:
		return c.st.Flush(ctx)
	}
	return errNotSupported
}

var errNotSupported = &backstore.Error{Code: backstore.CodeNotSupported}

// Poll implements backstore.Engine.
func (c *calls) Poll(res []backstore.Result) int {
	n := copy(res, c.ended[c.first:])
	c.first += n
	return n
}

// Close implements backstore.Engine.
func (c *calls) Close() error { return nil }

// InMemory tells whether the file of a descriptor is in memory: of a tmpfs. io_uring has a thread of the kernel's write to one, and in
// kernels before 6.6 read it.
func InMemory(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}
