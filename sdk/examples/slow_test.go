package examples_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// A host that the plugin offers Transfer uses nothing else, so the kit does not reach these.
func TestSlowPathHasSingleCallsToo(t *testing.T) {
	need(t)
	const size = 4 << 20
	p := raw(t, pythonPlugin.path)
	rpc, id := p.RPC(), openRaw(t, p)
	data := bytes.Repeat([]byte("gosrpt!!"), 128)
	for _, c := range []struct {
		offset uint64
		data   []byte
		want   backstore.Code
	}{
		{512, data, backstore.CodeOK}, {size - 512, data, backstore.CodeRange}, {math.MaxUint64 - 511, data, backstore.CodeRange},
		{1, data, backstore.CodeInvalid}, {0, data[:511], backstore.CodeInvalid},
	} {
		r, err := rpc.Write(soon(t), &backstorepb.WriteRequest{Store: id, Offset: c.offset, Data: c.data, Fua: true})
		if err != nil || r.Error.GetCode() != uint32(c.want) {
			t.Errorf("write of %d at %d: %v, %v, want %v", len(c.data), c.offset, err, r, c.want)
		}
	}
	if r, err := rpc.Flush(soon(t), &backstorepb.FlushRequest{Store: id}); err != nil || r.Error != nil {
		t.Errorf("flush: %v, %v", err, r)
	}
	for _, c := range []struct {
		offset uint64
		length uint32
		want   backstore.Code
	}{
		{512, 1024, backstore.CodeOK}, {size, 512, backstore.CodeRange}, {math.MaxUint64 - 511, 512, backstore.CodeRange},
		{0, math.MaxUint32, backstore.CodeInvalid}, {256, 512, backstore.CodeInvalid},
	} {
		r, err := rpc.Read(soon(t), &backstorepb.ReadRequest{Store: id, Offset: c.offset, Length: c.length})
		if err != nil || r.Error.GetCode() != uint32(c.want) {
			t.Errorf("read of %d at %d: %v, %v, want %v", c.length, c.offset, err, r.GetError(), c.want)
		}
		if c.want == backstore.CodeOK && !bytes.Equal(r.GetData(), data) {
			t.Error("what was written is not read")
		}
	}
}

func TestTransferRefusesWhatIsNotOffered(t *testing.T) {
	need(t)
	p := raw(t, pythonPlugin.path)
	s, err := p.RPC().Transfer(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*backstorepb.TransferRequest{
		{Tag: 1}, {Tag: 2, Op: &backstorepb.TransferRequest_Unmap{Unmap: &backstorepb.UnmapRequest{Store: openRaw(t, p), Length: 512}}},
	} {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		a, err := s.Recv()
		if err != nil || a.Tag != r.Tag || a.Error.GetCode() != uint32(backstore.CodeNotSupported) {
			t.Errorf("%v: %v, %v", r, err, a)
		}
	}
}
