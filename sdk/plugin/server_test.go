package plugin

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

type opens func(map[string]string) (backstore.Store, error)

func (f opens) Open(_ context.Context, c map[string]string) (backstore.Store, error) { return f(c) }

func serve(t *testing.T, st backstore.Store) (*server, uint64) {
	t.Helper()
	s := newServer(opens(func(map[string]string) (backstore.Store, error) { return st, nil }))
	t.Cleanup(s.shutdown)
	r, err := s.Open(t.Context(), &backstorepb.OpenRequest{})
	if err != nil || r.Error != nil {
		t.Fatal(err, r.GetError())
	}
	return s, r.Store
}

func TestSlowPathReadsWhatItWrote(t *testing.T) {
	for name, st := range map[string]backstore.Store{
		"calls": memory(0), "submit": backstoretest.AsyncMemory{Memory: memory(0)},
	} {
		s, id := serve(t, st)
		data := []byte(strings.Repeat("slow but sure   ", 32))
		w, err := s.Write(t.Context(), &backstorepb.WriteRequest{Store: id, Offset: 1024, Data: data})
		if err != nil || w.Error != nil {
			t.Fatal(name, err, w.GetError())
		}
		f, err := s.Flush(t.Context(), &backstorepb.FlushRequest{Store: id})
		if err != nil || f.Error != nil {
			t.Fatal(name, err, f.GetError())
		}
		r, err := s.Read(t.Context(), &backstorepb.ReadRequest{Store: id, Offset: 1024, Length: 512})
		if err != nil || r.Error != nil || string(r.Data) != string(data) {
			t.Errorf("%s: %v %v %q", name, err, r.GetError(), r.GetData())
		}
	}
}

func TestSlowPathRefusesWhatCannotBe(t *testing.T) {
	s, id := serve(t, memory(0))
	for name, c := range map[string]struct {
		r    *backstorepb.ReadRequest
		want backstore.Code
	}{
		"no such store":      {&backstorepb.ReadRequest{Store: id + 1, Length: 512}, backstore.CodeInvalid},
		"too long":           {&backstorepb.ReadRequest{Store: id, Length: maxMessage + 512}, backstore.CodeInvalid},
		"the longest offset": {&backstorepb.ReadRequest{Store: id, Offset: ^uint64(0), Length: 512}, backstore.CodeRange},
		"outside":            {&backstorepb.ReadRequest{Store: id, Offset: 2048 * 512, Length: 512}, backstore.CodeRange},
		"no whole block":     {&backstorepb.ReadRequest{Store: id, Length: 100}, backstore.CodeInvalid},
	} {
		r, err := s.Read(t.Context(), c.r)
		if err != nil || backstore.Code(r.GetError().GetCode()) != c.want || r.Data != nil {
			t.Errorf("%s: %v, %v", name, err, r.GetError())
		}
	}
	w, _ := s.Write(t.Context(), &backstorepb.WriteRequest{Store: id, Data: make([]byte, 512), Fua: true})
	if backstore.Code(w.GetError().GetCode()) != backstore.CodeInvalid {
		t.Errorf("FUA that was not declared: %v", w.GetError())
	}
}

func TestControlRefusesWhatCannotBe(t *testing.T) {
	s, id := serve(t, memory(0))
	ctx := t.Context()
	if r, _ := s.AttachArena(ctx, &backstorepb.AttachArenaRequest{Token: 1, Size: 4096}); r.Error == nil {
		t.Error("an arena without a channel was attached")
	}
	if r, _ := s.AttachQueue(ctx, &backstorepb.AttachQueueRequest{Store: id, Token: 1, Entries: 4}); r.Error == nil {
		t.Error("a queue without a channel was attached")
	}
	if r, _ := s.DetachQueue(ctx, &backstorepb.DetachQueueRequest{Queue: 99}); r.Error == nil {
		t.Error("a queue that is not there was detached")
	}
	if d, _ := s.Describe(ctx, nil); d.Ring {
		t.Error("rings are declared without a channel")
	}
	if r, _ := s.CloseStore(ctx, &backstorepb.CloseStoreRequest{Store: id}); r.Error != nil {
		t.Error(r.Error)
	}
	if r, _ := s.CloseStore(ctx, &backstorepb.CloseStoreRequest{Store: id}); r.Error == nil {
		t.Error("a store was closed twice")
	}
	s.shutdown()
	if r, _ := s.Open(ctx, &backstorepb.OpenRequest{}); r.Error == nil {
		t.Error("a store was opened after the shutdown")
	}
}

func TestOpenHandsOnTheStoresErrorAndChecksItsInfo(t *testing.T) {
	s := newServer(opens(func(map[string]string) (backstore.Store, error) {
		return nil, &backstore.Error{Code: backstore.CodeReadOnly, Err: errors.New("the key path is missing")}
	}))
	r, err := s.Open(t.Context(), &backstorepb.OpenRequest{})
	if err != nil || r.GetError().GetCode() != uint32(backstore.CodeReadOnly) || !strings.Contains(r.Error.Text, "path is missing") {
		t.Errorf("%v, %v", err, r)
	}
	for name, i := range map[string]backstore.Info{
		"no block size":        {Blocks: 8},
		"odd block size":       {BlockSize: 520, Blocks: 8},
		"no blocks":            {BlockSize: 512},
		"too many blocks":      {BlockSize: 4096, Blocks: 1 << 60},
		"negative concurrency": {BlockSize: 512, Blocks: 8, Concurrency: -1},
	} {
		st := &closing{info: i}
		s := newServer(opens(func(map[string]string) (backstore.Store, error) { return st, nil }))
		if r, _ := s.Open(t.Context(), &backstorepb.OpenRequest{}); r.GetError() == nil || !st.closed {
			t.Errorf("%s: %v, closed %v", name, r, st.closed)
		}
	}
}

// closing is a store that only tells its description and whether it was closed.
type closing struct {
	backstore.Store
	info   backstore.Info
	closed bool
}

func (s *closing) Info() backstore.Info { return s.info }
func (s *closing) Close() error         { s.closed = true; return nil }

func TestInboxKeepsDescriptorsForTheCallThatNamesThem(t *testing.T) {
	b := newInbox()
	b.put(5, []int{-1}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.take(ctx, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("a token that never came: %v", err)
	}
	if fds, err := b.take(t.Context(), 5); err != nil || len(fds) != 1 {
		t.Errorf("token 5: %v, %v", fds, err)
	}
	got := make(chan error)
	go func() {
		_, err := b.take(t.Context(), 6)
		got <- err
	}()
	b.put(6, []int{-1}, nil)
	if err := <-got; err != nil {
		t.Errorf("token 6: %v", err)
	}
	b.put(0, nil, os.ErrClosed)
	if _, err := b.take(t.Context(), 7); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	b = newInbox()
	for i := range uint64(maxUnclaimed) {
		if !b.put(i, []int{-1}, nil) {
			t.Fatalf("message %d was refused", i)
		}
	}
	if b.put(maxUnclaimed, []int{-1}, nil) {
		t.Error("messages that nobody claims pile up without a bound")
	}
}
