package plugin

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

var (
	errPower      = &backstore.Error{Code: backstore.CodeNotSupported, Err: errors.New("the store does not have this power")}
	errSanitizing = &backstore.Error{Code: backstore.CodeBusy, Err: errors.New("the store is being sanitized")}
	errInUse      = &backstore.Error{Code: backstore.CodeBusy, Err: errors.New("the store is in use: queues are attached, requests or a sanitize under way")}
)

// WatchSize sends the store's description after each change of its size. Changes that come faster than the host takes them are
// told as one. A second stream waits for the end of the first, and begins with what that may have taken and not delivered.
func (s *server) WatchSize(r *backstorepb.WatchSizeRequest, stream backstorepb.Backstore_WatchSizeServer) error {
	st, err := s.find(r.GetStore())
	switch {
	case err != nil:
		return status.Error(codes.NotFound, err.Error())
	case !st.info.Powers.Has(backstore.PowerResize):
		return status.Error(codes.FailedPrecondition, errPower.Error())
	}
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	select {
	case st.side.watching <- struct{}{}:
		defer func() { <-st.side.watching }()
	case <-st.side.ctx.Done():
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	if st.side.moved.Load() {
		st.side.tell()
	}
	for {
		select {
		case <-st.side.resized:
		case <-st.side.ctx.Done():
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		if err := stream.Send(&backstorepb.WatchSizeResponse{Info: infoMessage(st.now())}); err != nil {
			st.side.tell()
			return err
		}
	}
}

// maxHealth is how long a store's word on its health may be, in bytes.
const maxHealth = 1024

// StoreHealth asks a store how it is.
func (s *server) StoreHealth(ctx context.Context, r *backstorepb.StoreHealthRequest) (*backstorepb.StoreHealthResponse, error) {
	h, err := s.storeHealth(ctx, r.GetStore())
	if err != nil {
		return &backstorepb.StoreHealthResponse{Error: failure(err)}, nil
	}
	text := h.Text[:min(len(h.Text), maxHealth)]
	return &backstorepb.StoreHealthResponse{Condition: uint32(h.Condition), Text: strings.ToValidUTF8(text, "?")}, nil
}

func (s *server) storeHealth(ctx context.Context, id uint64) (backstore.Health, error) {
	st, err := s.find(id)
	if err != nil {
		return backstore.Health{}, err
	}
	reporter, ok := st.inner.(backstore.HealthReporter)
	if !ok {
		return backstore.Health{}, errPower
	}
	ctx, leave, err := st.side.enter(ctx)
	if err != nil {
		return backstore.Health{}, err
	}
	defer leave()
	return reporter.Health(ctx)
}

// Sanitize destroys the content of a store that nobody else uses.
func (s *server) Sanitize(r *backstorepb.SanitizeRequest, stream backstorepb.Backstore_SanitizeServer) error {
	err := s.sanitize(r, stream)
	return stream.Send(&backstorepb.SanitizeResponse{Ended: true, Error: failure(err)})
}

func (s *server) sanitize(r *backstorepb.SanitizeRequest, stream backstorepb.Backstore_SanitizeServer) error {
	st, err := s.find(r.GetStore())
	if err != nil {
		return err
	}
	z, ok := st.inner.(backstore.Sanitizer)
	method := backstore.SanitizeMethod(r.GetMethod())
	switch {
	case !ok:
		return errPower
	case st.info.ReadOnly:
		return &backstore.Error{Code: backstore.CodeReadOnly}
	case method == 0 || method > backstore.SanitizeCrypto || uint32(method) != r.GetMethod():
		return &backstore.Error{Code: backstore.CodeNotSupported}
	}
	ctx, leave, err := st.side.enter(stream.Context())
	if err != nil {
		return err
	}
	defer leave()
	if !st.use.TryLock() {
		return errInUse
	}
	defer st.use.Unlock()
	var far progress
	far.more = make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() { done <- z.Sanitize(ctx, method, far.raise) }()
	for {
		select {
		case err := <-done:
			return err
		case <-far.more:
			// A host that does not listen any more has ended ctx.
			_ = stream.Send(&backstorepb.SanitizeResponse{Permille: far.permille.Load()})
		}
	}
}

// progress is how far something is. It only rises.
type progress struct {
	permille atomic.Uint32
	more     chan struct{} // has room for one: it has risen
}

// raise does not block.
func (p *progress) raise(permille int) {
	n := uint32(min(max(permille, 0), 1000))
	for {
		was := p.permille.Load()
		if n <= was {
			return
		}
		if p.permille.CompareAndSwap(was, n) {
			break
		}
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
}
