package backstoretest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/conformance"
)

// patience bounds each check, unless the Subject says otherwise; a store that hangs fails.
const patience = 2 * time.Minute

// minBytes is how large a store the checks need.
const minBytes = 1 << 20

// Subject is what is tested.
type Subject struct {
	// Backstore opens the stores.
	Backstore backstore.Backstore
	// Config returns the configuration of a store that nobody else uses, writable, of at least 1 MiB. Each check asks for one.
	Config func(t testing.TB) map[string]string
	// ReadOnly returns the configuration for opening the store of a Config again, for reading only. Nil if there is none.
	ReadOnly func(config map[string]string) map[string]string
	// Grow makes the store of a Config, which is open, longer by means of its medium. Nil if there are none.
	Grow func(t testing.TB, config map[string]string)
	// Patience bounds each check. 0 means two minutes.
	Patience time.Duration
	// Volatile says that a store's content ends with Close.
	Volatile bool
}

// check is one promise of the contract.
type check struct {
	name string
	run  func(*run)
}

// Test runs every check as a subtest.
func Test(t *testing.T, s Subject) { conformance.Test(t, Checks(s)) }

// Checks lists the checks, for conformance.Runner.
func Checks(s Subject) []conformance.Check {
	if s.Backstore == nil || s.Config == nil {
		panic("backstoretest: a Subject needs a Backstore and a Config")
	}
	var all []conformance.Check
	add := func(c check, way string, ready func(*run) *run) {
		all = append(all, conformance.Check{Name: c.name + way, Run: func(t testing.TB) { c.run(ready(newRun(t, s))) }})
	}
	for _, c := range opening {
		add(c, "", func(r *run) *run { return r })
	}
	for _, c := range slices.Concat(data, powers) {
		add(c, "/calls", (*run).open)
		add(c, "/submit", func(r *run) *run { return r.open().submitting() })
		add(c, "/engine", func(r *run) *run { return r.open().driving() })
	}
	for _, c := range medium {
		add(c, "", (*run).open)
	}
	for _, c := range describing {
		add(c, "", func(r *run) *run { return r })
	}
	for _, c := range submitting {
		add(c, "/submit", func(r *run) *run { return r.open().submitting() })
		add(c, "/engine", func(r *run) *run { return r.open().driving() })
	}
	return all
}

// submitting makes requests go through Submit, or skips the check.
func (r *run) submitting() *run {
	r.Helper()
	if r.sub, _ = r.store.(backstore.Submitter); r.sub == nil {
		r.Skip("the store is no Submitter")
	}
	return r
}

// driving makes requests go through an Engine of the store, or skips the check.
func (r *run) driving() *run {
	r.Helper()
	e, ok := r.store.(backstore.Engines)
	if !ok {
		r.Skip("the store has no engines")
	}
	d, err := drive(r.ctx, e)
	if err != nil {
		r.Fatalf("NewEngine: %v", err)
	}
	r.store, r.sub = d, d
	return r
}

// run is one check in progress.
type run struct {
	testing.TB
	Subject
	ctx    context.Context
	config map[string]string
	store  backstore.Store
	able   backstore.Store     // store, with the methods of its powers
	sub    backstore.Submitter // not nil: requests go through Submit
	info   backstore.Info
	bs     int
	size   int64
}

func newRun(t testing.TB, s Subject) *run {
	if s.Patience == 0 {
		s.Patience = patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return &run{TB: t, Subject: s, ctx: ctx, config: s.Config(t)}
}

// open opens the run's store and closes it with the test.
func (r *run) open() *run {
	r.Helper()
	r.reopen(r.config)
	if r.size < minBytes {
		r.Fatalf("the store has %d bytes; Config must make one of at least %d", r.size, minBytes)
	}
	r.Cleanup(r.close)
	return r
}

func (r *run) reopen(config map[string]string) {
	r.Helper()
	s, err := r.Backstore.Open(r.ctx, config)
	if err != nil {
		r.Fatalf("Open: %v", err)
	}
	if s == nil {
		r.Fatal("Open returned neither a store nor an error")
	}
	r.store, r.able, r.sub, r.info = s, s, nil, s.Info()
	r.bs, r.size = int(r.info.BlockSize), int64(r.info.Blocks)*int64(r.info.BlockSize)
}

// close closes the store, if it is open.
func (r *run) close() {
	r.Helper()
	if r.store == nil {
		return
	}
	if err := r.store.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.store = nil
}

// do runs one request.
func (r *run) do(req backstore.Request) backstore.Code {
	r.Helper()
	return r.all([]backstore.Request{req})[0]
}

// all runs requests, together if they go through Submit, and returns their codes.
func (r *run) all(reqs []backstore.Request) []backstore.Code {
	r.Helper()
	if r.sub != nil {
		return r.submit(reqs)
	}
	codes := make([]backstore.Code, len(reqs))
	for i := range reqs {
		codes[i] = backstore.CodeOf(r.call(&reqs[i]))
	}
	return codes
}

func (r *run) call(q *backstore.Request) error {
	switch q.Op {
	case backstore.OpRead:
		return r.store.Read(r.ctx, q.Data, q.Off)
	case backstore.OpWrite:
		return r.store.Write(r.ctx, q.Data, q.Off, q.Flags)
	default:
		return r.store.Flush(r.ctx)
	}
}

// submit sends requests in one batch and waits for all of them. The batch's slice is overwritten at once, as a host does.
func (r *run) submit(reqs []backstore.Request) []backstore.Code {
	r.Helper()
	c := newCollector(len(reqs))
	batch := make([]backstore.Request, len(reqs))
	for i := range reqs {
		batch[i] = reqs[i]
		batch[i].Tag = uint64(i)
	}
	r.sub.Submit(batch, c.done)
	for i := range batch {
		batch[i] = backstore.Request{Tag: 1 << 40, Op: backstore.OpWrite, Off: -1}
	}
	codes, err := c.wait(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	return codes
}

// must fails the check unless the code is CodeOK.
func (r *run) must(what string, c backstore.Code) {
	r.Helper()
	if c != backstore.CodeOK {
		r.Fatalf("%s: %v", what, c)
	}
}

// read reads p, in as many requests as the store's longest transfer makes of it.
func (r *run) read(p []byte, off int64) backstore.Code {
	r.Helper()
	return r.split(backstore.OpRead, p, off)
}

func (r *run) write(p []byte, off int64) backstore.Code {
	r.Helper()
	return r.split(backstore.OpWrite, p, off)
}

func (r *run) split(op backstore.Op, p []byte, off int64) backstore.Code {
	r.Helper()
	n := len(p)
	if r.info.MaxTransfer != 0 {
		n = min(n, int(r.info.MaxTransfer))
	}
	c := r.do(backstore.Request{Op: op, Data: p[:n:n], Off: off})
	if c != backstore.CodeOK || n == len(p) {
		return c
	}
	return r.split(op, p[n:], off+int64(n))
}

func (r *run) flush() backstore.Code {
	r.Helper()
	return r.do(backstore.Request{Op: backstore.OpFlush})
}
