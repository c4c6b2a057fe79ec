package roce

import (
	"unsafe"

	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// reseal makes the ICRC of packet i of the batch anew, for identification 0. The packet is read back
// from the vectors, which were made of slices that are still alive.
func (t *transmitter) reseal(q *qp, i int) {
	pk := &t.packets[i]
	parts := t.parts[:0]
	for _, v := range t.vecs[pk.vec : pk.vec+pk.vecs] {
		parts = append(parts, unsafe.Slice(v.Base, v.Len))
	}
	last := len(parts) - 1
	tail := parts[last]
	parts[last] = tail[:len(tail)-wire.ICRCSize]
	wire.AppendICRC(parts[last], q.txFlow.SumVec(parts, 0))
}
