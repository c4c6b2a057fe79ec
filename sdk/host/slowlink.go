package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// slowLink carries requests and their data in gRPC messages: for plugins that do not map rings. It allocates and copies.
type slowLink struct {
	p     *Process
	store uint64
	bell  *shm.Event
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	// work has room for every request of the queue.
	work chan slowJob

	mu     sync.Mutex
	ended  []ring.Done
	err    error
	asleep bool
}

type slowJob struct {
	slot uint32
	req  backstore.Request
}

// newSlowLink starts a stream, or, with a plugin that has none, workers that make single calls.
func newSlowLink(s *Store, q *Queue) *slowLink {
	l := &slowLink{p: s.p, store: s.id, bell: q.bell, work: make(chan slowJob, q.opt.Entries)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if s.p.stream {
		l.wg.Go(l.stream)
		return l
	}
	for range min(q.opt.Entries, 32) {
		l.wg.Go(l.calls)
	}
	return l
}

func (l *slowLink) push(slot uint32, r *backstore.Request, _ uint64) {
	l.work <- slowJob{slot: slot, req: *r}
}

func (l *slowLink) flush() {}

func (l *slowLink) poll(out []ring.Done) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := copy(out, l.ended)
	l.ended = l.ended[:copy(l.ended, l.ended[n:])]
	if n == 0 {
		return 0, l.err
	}
	return n, nil
}

func (l *slowLink) sleep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = len(l.ended) == 0 && l.err == nil
	return l.asleep
}

func (l *slowLink) awake() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.asleep
	l.asleep = false
	return was
}

// finish records a result; call with mu held.
func (l *slowLink) wake() {
	if l.asleep {
		l.asleep = false
		l.bell.Ring()
	}
}

func (l *slowLink) finish(d ring.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, d)
	l.wake()
}

func (l *slowLink) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.wake()
}

// mapped is nil: data is copied here, and the plugin has none of the arena.
func (l *slowLink) mapped() *Store { return nil }

func (l *slowLink) broke(err error) { l.p.fault(err) }

func (l *slowLink) detach(context.Context) error {
	l.stop()
	return nil
}

func (l *slowLink) quiesce() {
	l.stop()
	l.wg.Wait()
}

func (l *slowLink) release() {}

func (l *slowLink) pulse() pulse { return pulse{} }

// calls makes one call after another.
func (l *slowLink) calls() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case j := <-l.work:
			e, data, err := l.call(&j.req)
			var d ring.Done
			if err == nil {
				d, err = done(&j, e, data)
			}
			if err != nil {
				l.fail(err)
				return
			}
			l.finish(d)
		}
	}
}

// call returns the plugin's answer. data are those of a read.
func (l *slowLink) call(r *backstore.Request) (e *backstorepb.Error, data []byte, err error) {
	switch r.Op {
	case backstore.OpRead:
		out, err := l.p.bridge.RPC().Read(l.ctx, l.read(r))
		return out.GetError(), out.GetData(), err
	case backstore.OpWrite:
		out, err := l.p.bridge.RPC().Write(l.ctx, l.write(r))
		return out.GetError(), nil, err
	case backstore.OpFlush:
		out, err := l.p.bridge.RPC().Flush(l.ctx, &backstorepb.FlushRequest{Store: l.store})
		return out.GetError(), nil, err
	}
	e, err = l.callPower(r)
	return e, nil, err
}

func (l *slowLink) read(r *backstore.Request) *backstorepb.ReadRequest {
	return &backstorepb.ReadRequest{Store: l.store, Offset: uint64(r.Off), Length: uint32(len(r.Data))}
}

func (l *slowLink) write(r *backstore.Request) *backstorepb.WriteRequest {
	return &backstorepb.WriteRequest{
		Store: l.store, Offset: uint64(r.Off), Data: r.Data, Fua: r.Flags&backstore.FUA != 0,
	}
}

func codeOf(e *backstorepb.Error) backstore.Code {
	switch {
	case e == nil:
		return backstore.CodeOK
	case e.Code == 0 || e.Code > uint32(backstore.MaxCode):
		return backstore.CodeIO
	}
	return backstore.Code(e.Code)
}

// done checks an answer and copies what was read. A read that succeeds with another length than asked for breaks the
// protocol, as does a miscompare that cannot be.
func done(j *slowJob, e *backstorepb.Error, data []byte) (ring.Done, error) {
	r := &j.req
	c := codeOf(e)
	d := ring.Done{Slot: j.slot, Code: uint16(c)}
	switch {
	case c == backstore.CodeMiscompare:
		d.At = e.At
		return d, checkMiscompare(r, e.At)
	case c != backstore.CodeOK || r.Op != backstore.OpRead:
		return d, nil
	case len(data) != len(r.Data):
		return d, &ring.Violation{Breach: ring.BreachBytes, Got: uint64(len(data)), Limit: uint64(len(r.Data))}
	}
	copy(r.Data, data)
	return d, nil
}

// stream sends requests and has a second goroutine take the answers.
func (l *slowLink) stream() {
	s, err := l.p.bridge.RPC().Transfer(l.ctx)
	if err != nil {
		l.fail(err)
		return
	}
	t := &transfers{l: l, out: map[uint64]slowJob{}}
	l.wg.Go(func() { t.receive(s) })
	for {
		select {
		case <-l.ctx.Done():
			return
		case j := <-l.work:
			if err := s.Send(t.request(j)); err != nil {
				return // receive learns why
			}
		}
	}
}

// transfers are the requests of a stream that have no answer yet.
type transfers struct {
	l    *slowLink
	mu   sync.Mutex
	last uint64
	out  map[uint64]slowJob
}

func (t *transfers) request(j slowJob) *backstorepb.TransferRequest {
	t.mu.Lock()
	t.last++
	r := &backstorepb.TransferRequest{Tag: t.last}
	t.out[r.Tag] = j
	t.mu.Unlock()
	switch j.req.Op {
	case backstore.OpRead:
		r.Op = &backstorepb.TransferRequest_Read{Read: t.l.read(&j.req)}
	case backstore.OpWrite:
		r.Op = &backstorepb.TransferRequest_Write{Write: t.l.write(&j.req)}
	case backstore.OpFlush:
		r.Op = &backstorepb.TransferRequest_Flush{Flush: &backstorepb.FlushRequest{Store: t.l.store}}
	default:
		t.l.transferPower(r, &j.req)
	}
	return r
}

func (t *transfers) receive(s grpc.BidiStreamingClient[backstorepb.TransferRequest, backstorepb.TransferResponse]) {
	for {
		r, err := s.Recv()
		if err == nil {
			err = t.answer(r)
		}
		if err != nil {
			t.l.fail(errors.Join(err, t.l.ctx.Err()))
			return
		}
	}
}

func (t *transfers) answer(r *backstorepb.TransferResponse) error {
	t.mu.Lock()
	j, ok := t.out[r.Tag]
	delete(t.out, r.Tag)
	t.mu.Unlock()
	if !ok {
		return fmt.Errorf("host: %w", &ring.Violation{Breach: ring.BreachTag, Got: r.Tag})
	}
	d, err := done(&j, r.Error, r.Data)
	if err == nil {
		t.l.finish(d)
	}
	return err
}
