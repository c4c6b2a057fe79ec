package file

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// sizePoll is how often the size is looked at.
const sizePoll = 2 * time.Second

// WatchSize implements backstore.Resizer: it notices a file or device that has grown. One that has shrunk keeps its size for the host,
// and what is missing fails.
func (s *store) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	t := time.NewTicker(sizePoll)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		size, _, err := geometry(s.f)
		if err != nil {
			continue // I/O fails too, and says so
		}
		if size = s.whole(size); size > s.io.Size() {
			s.io.SetSize(size)
			changed(s.Info())
		}
	}
}

// Health implements backstore.HealthReporter: a sparse file may grow beyond what its file system has.
func (s *store) Health(context.Context) (backstore.Health, error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.io.FD, &st); err != nil {
		return backstore.Health{}, s.io.Wrap(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return backstore.Health{}, nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(s.io.FD, &fs); err != nil {
		return backstore.Health{}, s.io.Wrap(err)
	}
	return headroom(s.io.Size()-st.Blocks*512, fs.Bavail, uint64(fs.Bsize)), nil
}

// headroom holds what the file has no blocks for yet, in bytes, against the file system's free blocks.
func headroom(missing int64, free, block uint64) backstore.Health {
	if missing <= 0 || free > uint64(missing)/block {
		return backstore.Health{}
	}
	return backstore.Health{Condition: backstore.ConditionDegraded, Text: fmt.Sprintf(
		"the sparse file may need %d bytes more and its file system has %d left; make room before writes fail", missing, free*block)}
}
