package descriptor

import (
	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// growing is an engine that knows the size that the file has by now.
type growing struct {
	*uring.Engine
	file  *File
	batch []backstore.Request // one that has a request outside the store
}

// Submit implements backstore.Engine. A request outside the store becomes one that the engine refuses.
func (g *growing) Submit(reqs []backstore.Request) {
	size := g.file.Size()
	for i := range reqs {
		if outside(&reqs[i], size) {
			g.batch = append(g.batch[:0], reqs...)
			for j := i; j < len(reqs); j++ {
				if outside(&g.batch[j], size) {
					g.batch[j].Off = -1
				}
			}
			reqs = g.batch
			break
		}
	}
	g.Engine.Submit(reqs)
}

func outside(r *backstore.Request, size int64) bool {
	return r.Op != backstore.OpFlush && r.Off > size-int64(len(r.Data))
}
