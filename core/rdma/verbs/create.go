//go:build verbs

package verbs

// #include "shim.h"
import "C"

import "github.com/gosrpt/gosrpt/core/rdma"

// create makes the C half, with what the device grants of cfg.
func (q *qp) create(cfg *rdma.QPConfig, sge int) error {
	want := room{uint32(max(cfg.SendDepth, 1)), uint32(max(cfg.RecvDepth, 1)), uint32(sge), inlineBytes}
	if q.srq != nil {
		want.recvs = 0
	}
	granted, err := fit(want, q.dev.limits(), q.tryCreate, q.uncreate)
	if err != nil {
		return err
	}
	if granted.sends < want.sends || granted.elements < want.elements {
		q.dev.counts.narrowed.Add(1)
		q.dev.log.Debug("the device grants a queue pair less than asked for", "granted", granted, "asked", want)
	}
	c := granted.c()
	if err := call("prepare queue pair", C.gv_qp_prepare(q.c, C.uint32_t(cfg.SendDepth), C.uint32_t(cfg.RecvDepth), &c)); err != nil {
		q.uncreate()
		return err
	}
	return nil
}

// tryCreate asks the device once.
func (q *qp) tryCreate(ask room) (room, error) {
	c := ask.c()
	if err := call("create queue pair", C.gv_qp_create(q.dev.pd, q.cq.c, q.srq.object(), C.uint64_t(q.key), &c, &q.c)); err != nil {
		return room{}, err
	}
	return room{uint32(c.sends), uint32(c.recvs), uint32(c.elements), uint32(c.inl)}, nil
}

func (r room) c() C.struct_gv_room {
	return C.struct_gv_room{C.uint32_t(r.sends), C.uint32_t(r.recvs), C.uint32_t(r.elements), C.uint32_t(r.inline)}
}

// uncreate undoes tryCreate.
func (q *qp) uncreate() {
	C.gv_qp_destroy(q.c)
	C.gv_qp_free(q.c)
	q.c = nil
}
