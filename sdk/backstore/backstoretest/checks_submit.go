package backstoretest

import (
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// submitting are the checks of Submit itself, a Submitter's and an Engine's.
var submitting = []check{
	{"Submit takes an empty batch", checkEmptyBatch},
	{"Submit takes more requests than an engine's queue", checkDeepBatch},
	{"a batch mixes operations, and each request is completed once", checkMixedBatch},
}

func checkEmptyBatch(r *run) {
	r.sub.Submit(nil, func(backstore.Result) { r.Error("a result of nothing") })
	r.must("Flush", r.flush())
}

func checkDeepBatch(r *run) {
	const n = 1024
	b := newBuffer(r, n*r.bs)
	reqs := make([]backstore.Request, n)
	blocks := int(r.size / int64(r.bs))
	for i := range reqs {
		reqs[i] = backstore.Request{
			Op: backstore.OpRead, Off: int64(i%blocks) * int64(r.bs), Data: b.data(n * r.bs)[i*r.bs : (i+1)*r.bs],
		}
	}
	for i, c := range r.all(reqs) {
		if c != backstore.CodeOK {
			r.Fatalf("request %d of %d: %v", i, n, c)
		}
	}
}

func checkMixedBatch(r *run) {
	const n = 48
	const rounds = 3 // all in flight together, each in memory and blocks of its own
	b := newBuffer(r, rounds*n*r.bs)
	c := newCollector(rounds * n)
	part := func(i int) []byte { return b.data(rounds * n * r.bs)[i*r.bs : (i+1)*r.bs] }
	for round := range rounds {
		batch := make([]backstore.Request, n)
		for i := range batch {
			ops := []backstore.Op{backstore.OpWrite, backstore.OpRead, backstore.OpFlush}
			batch[i] = backstore.Request{Tag: uint64(round*n + i), Op: ops[i%3]}
			if batch[i].Op != backstore.OpFlush {
				at := round*n + i
				batch[i].Off, batch[i].Data = int64(at*r.bs), part(at)
			}
		}
		r.sub.Submit(batch, c.done)
	}
	codes, err := c.wait(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	for i, code := range codes {
		if code != backstore.CodeOK {
			r.Errorf("request %d: %v", i, code)
		}
	}
	r.close() // what a store completes late, it completes before Close returns
	if err := c.misused(); err != nil {
		r.Error(err)
	}
}
