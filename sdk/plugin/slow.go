package plugin

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// maxMessage is the longest transfer of the slow path in bytes.
const maxMessage = 64 << 20

// Read is the slow data path.
func (s *server) Read(_ context.Context, r *backstorepb.ReadRequest) (*backstorepb.ReadResponse, error) {
	data, err := s.read(r)
	return &backstorepb.ReadResponse{Error: failure(err), Data: data}, nil
}

func (s *server) read(r *backstorepb.ReadRequest) ([]byte, error) {
	if r.Length > maxMessage {
		return nil, invalid("a read of %d bytes; at most %d can be in one message", r.Length, maxMessage)
	}
	p := alignedBytes(int(r.Length))
	err := s.one(r.GetStore(), backstore.Request{Op: backstore.OpRead, Data: p}, r.Offset)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Write is the slow data path.
func (s *server) Write(_ context.Context, r *backstorepb.WriteRequest) (*backstorepb.WriteResponse, error) {
	return &backstorepb.WriteResponse{Error: failure(s.write(r))}, nil
}

func (s *server) write(r *backstorepb.WriteRequest) error {
	// The message's bytes have no alignment, and the store was promised one.
	p := aligned(r.GetData())
	return s.one(r.GetStore(), backstore.Request{Op: backstore.OpWrite, Flags: flags(r.GetFua(), false), Data: p}, r.GetOffset())
}

// aligned copies what a message carries.
func aligned(parts ...[]byte) []byte {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	p := alignedBytes(n)
	n = 0
	for _, part := range parts {
		n += copy(p[n:], part)
	}
	return p
}

// Flush is the slow data path.
func (s *server) Flush(_ context.Context, r *backstorepb.FlushRequest) (*backstorepb.FlushResponse, error) {
	return &backstorepb.FlushResponse{Error: failure(s.flush(r))}, nil
}

func (s *server) flush(r *backstorepb.FlushRequest) error {
	return s.one(r.GetStore(), backstore.Request{Op: backstore.OpFlush}, 0)
}

func (s *server) one(id uint64, r backstore.Request, off uint64) error {
	st, err := s.find(id)
	if err != nil {
		return err
	}
	if off > 1<<63-1 {
		return &backstore.Error{Code: backstore.CodeRange}
	}
	r.Off = int64(off)
	if res := st.one(r); res.Code != backstore.CodeOK {
		return &backstore.Error{Code: res.Code, At: res.At}
	}
	return nil
}

// Transfer is the slow data path as a stream. At most maxTransfers requests of a stream run at once.
func (s *server) Transfer(stream backstorepb.Backstore_TransferServer) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	var send sync.Mutex
	slots := make(chan struct{}, maxTransfers)
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out := s.transfer(r)
			send.Lock()
			defer send.Unlock()
			_ = stream.Send(out) // a broken stream ends Recv too
		})
	}
}

const maxTransfers = 64

func (s *server) transfer(r *backstorepb.TransferRequest) *backstorepb.TransferResponse {
	out := &backstorepb.TransferResponse{Tag: r.Tag}
	var err error
	switch op := r.Op.(type) {
	case *backstorepb.TransferRequest_Read:
		out.Data, err = s.read(op.Read)
	case *backstorepb.TransferRequest_Write:
		err = s.write(op.Write)
	case *backstorepb.TransferRequest_Flush:
		err = s.flush(op.Flush)
	default:
		err = s.transferPower(r)
	}
	out.Error = failure(err)
	return out
}
