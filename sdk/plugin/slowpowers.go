package plugin

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Unmap is the slow data path.
func (s *server) Unmap(_ context.Context, r *backstorepb.UnmapRequest) (*backstorepb.UnmapResponse, error) {
	return &backstorepb.UnmapResponse{Error: failure(s.unmap(r))}, nil
}

func (s *server) unmap(r *backstorepb.UnmapRequest) error {
	return s.extent(r.GetStore(), backstore.Request{Op: backstore.OpUnmap}, r.GetOffset(), r.GetLength())
}

// WriteZeroes is the slow data path.
func (s *server) WriteZeroes(_ context.Context, r *backstorepb.WriteZeroesRequest) (*backstorepb.WriteZeroesResponse, error) {
	return &backstorepb.WriteZeroesResponse{Error: failure(s.writeZeroes(r))}, nil
}

func (s *server) writeZeroes(r *backstorepb.WriteZeroesRequest) error {
	req := backstore.Request{Op: backstore.OpWriteZeroes, Flags: flags(r.GetFua(), r.GetMayUnmap())}
	return s.extent(r.GetStore(), req, r.GetOffset(), r.GetLength())
}

// WriteSame is the slow data path.
func (s *server) WriteSame(_ context.Context, r *backstorepb.WriteSameRequest) (*backstorepb.WriteSameResponse, error) {
	return &backstorepb.WriteSameResponse{Error: failure(s.writeSame(r))}, nil
}

func (s *server) writeSame(r *backstorepb.WriteSameRequest) error {
	req := backstore.Request{Op: backstore.OpWriteSame, Flags: flags(r.GetFua(), false), Data: aligned(r.GetBlock())}
	return s.extent(r.GetStore(), req, r.GetOffset(), r.GetLength())
}

// CompareAndWrite is the slow data path.
func (s *server) CompareAndWrite(_ context.Context, r *backstorepb.CompareAndWriteRequest) (*backstorepb.CompareAndWriteResponse, error) {
	return &backstorepb.CompareAndWriteResponse{Error: failure(s.compareAndWrite(r))}, nil
}

func (s *server) compareAndWrite(r *backstorepb.CompareAndWriteRequest) error {
	if len(r.GetExpect()) != len(r.GetData()) {
		return invalid("%d bytes are expected and %d to be written", len(r.GetExpect()), len(r.GetData()))
	}
	req := backstore.Request{Op: backstore.OpCompareAndWrite, Flags: flags(r.GetFua(), false), Data: aligned(r.GetExpect(), r.GetData())}
	return s.one(r.GetStore(), req, r.GetOffset())
}

func (s *server) transferPower(r *backstorepb.TransferRequest) error {
	switch op := r.Op.(type) {
	case *backstorepb.TransferRequest_Unmap:
		return s.unmap(op.Unmap)
	case *backstorepb.TransferRequest_WriteZeroes:
		return s.writeZeroes(op.WriteZeroes)
	case *backstorepb.TransferRequest_CompareAndWrite:
		return s.compareAndWrite(op.CompareAndWrite)
	case *backstorepb.TransferRequest_WriteSame:
		return s.writeSame(op.WriteSame)
	}
	return &backstore.Error{Code: backstore.CodeNotSupported}
}

// extent is one for a request about n bytes of the store.
func (s *server) extent(id uint64, r backstore.Request, off, n uint64) error {
	if n > 1<<63-1 {
		return &backstore.Error{Code: backstore.CodeRange}
	}
	r.N = int64(n)
	return s.one(id, r, off)
}

func flags(fua, mayUnmap bool) backstore.Flags {
	var f backstore.Flags
	if fua {
		f |= backstore.FUA
	}
	if mayUnmap {
		f |= backstore.MayUnmap
	}
	return f
}
