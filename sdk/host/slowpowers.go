package host

import (
	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// callPower makes a single call for one of the powers.
func (l *slowLink) callPower(r *backstore.Request) (*backstorepb.Error, error) {
	rpc := l.p.bridge.RPC()
	switch r.Op {
	case backstore.OpUnmap:
		out, err := rpc.Unmap(l.ctx, l.unmap(r))
		return out.GetError(), err
	case backstore.OpWriteZeroes:
		out, err := rpc.WriteZeroes(l.ctx, l.writeZeroes(r))
		return out.GetError(), err
	case backstore.OpCompareAndWrite:
		out, err := rpc.CompareAndWrite(l.ctx, l.compareAndWrite(r))
		return out.GetError(), err
	case backstore.OpWriteSame:
		out, err := rpc.WriteSame(l.ctx, l.writeSame(r))
		return out.GetError(), err
	}
	return &backstorepb.Error{Code: uint32(backstore.CodeNotSupported)}, nil
}

// transferPower fills in a message of the stream. One for an operation that there is not stays empty, and is refused.
func (l *slowLink) transferPower(m *backstorepb.TransferRequest, r *backstore.Request) {
	switch r.Op {
	case backstore.OpUnmap:
		m.Op = &backstorepb.TransferRequest_Unmap{Unmap: l.unmap(r)}
	case backstore.OpWriteZeroes:
		m.Op = &backstorepb.TransferRequest_WriteZeroes{WriteZeroes: l.writeZeroes(r)}
	case backstore.OpCompareAndWrite:
		m.Op = &backstorepb.TransferRequest_CompareAndWrite{CompareAndWrite: l.compareAndWrite(r)}
	case backstore.OpWriteSame:
		m.Op = &backstorepb.TransferRequest_WriteSame{WriteSame: l.writeSame(r)}
	}
}

func (l *slowLink) unmap(r *backstore.Request) *backstorepb.UnmapRequest {
	return &backstorepb.UnmapRequest{Store: l.store, Offset: uint64(r.Off), Length: uint64(r.N)}
}

func (l *slowLink) writeZeroes(r *backstore.Request) *backstorepb.WriteZeroesRequest {
	return &backstorepb.WriteZeroesRequest{
		Store: l.store, Offset: uint64(r.Off), Length: uint64(r.N),
		Fua: r.Flags&backstore.FUA != 0, MayUnmap: r.Flags&backstore.MayUnmap != 0,
	}
}

func (l *slowLink) compareAndWrite(r *backstore.Request) *backstorepb.CompareAndWriteRequest {
	half := len(r.Data) / 2
	return &backstorepb.CompareAndWriteRequest{
		Store: l.store, Offset: uint64(r.Off), Expect: r.Data[:half], Data: r.Data[half:], Fua: r.Flags&backstore.FUA != 0,
	}
}

func (l *slowLink) writeSame(r *backstore.Request) *backstorepb.WriteSameRequest {
	return &backstorepb.WriteSameRequest{
		Store: l.store, Offset: uint64(r.Off), Length: uint64(r.N), Block: r.Data, Fua: r.Flags&backstore.FUA != 0,
	}
}
