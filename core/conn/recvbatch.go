package conn

import "github.com/gosrpt/gosrpt/core/rdma"

// repostBatch is how many receives are handed over at once.
const repostBatch = 32

// recvBatch is receives that are handed over at once.
type recvBatch struct {
	work []rdma.Work
	sges []rdma.SGE
}

func newRecvBatch() recvBatch {
	return recvBatch{work: make([]rdma.Work, 0, repostBatch), sges: make([]rdma.SGE, repostBatch)}
}

// add stages the receive of a buffer. The batch must not be full.
func (b *recvBatch) add(id uint64, buf rdma.SGE) {
	n := len(b.work)
	b.sges[n] = buf
	b.work = append(b.work, rdma.Work{ID: id, Op: rdma.OpRecv, SGL: b.sges[n : n+1 : n+1]})
}

func (b *recvBatch) full() bool { return len(b.work) == repostBatch }

func (b *recvBatch) drop() { b.work = b.work[:0] }

// post hands over what is staged, to a queue pair or a shared receive queue. What that does not take is lost, and the error ErrFull
// if it has none of its own.
func (b *recvBatch) post(to interface {
	PostRecv(work []rdma.Work) (int, error)
}) error {
	if len(b.work) == 0 {
		return nil
	}
	n, err := to.PostRecv(b.work)
	if n < len(b.work) && err == nil {
		err = rdma.ErrFull
	}
	b.drop()
	return err
}
