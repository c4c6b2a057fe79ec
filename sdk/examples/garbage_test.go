package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// bytesCodec sends and receives bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (bytesCodec) Name() string                       { return "proto" }

func TestMalformedCallsAreRefusedAndTheNextIsServed(t *testing.T) {
	need(t)
	p := raw(t, cChecked.path)
	const open = "/gosrpt.backstore.v1.Backstore/Open"
	for name, request := range map[string][]byte{
		"a field without an end": {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, "a number without an end": bytes.Repeat([]byte{0xff}, 64),
		"a group": {0x0b, 0x0b, 0x0b}, "a field 0": {0x02, 0x00},
	} {
		var answer []byte
		err := p.Conn().Invoke(soon(t), open, &request, &answer, grpc.ForceCodec(bytesCodec{}))
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v, %x", name, err, answer)
		}
	}
	large := &backstorepb.OpenRequest{Config: map[string]string{"path": strings.Repeat("/", 2<<20)}}
	if _, err := p.RPC().Open(soon(t), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large request: %v", err)
	}
	_, err := p.RPC().Open(soon(t), &backstorepb.OpenRequest{Config: config(t)}, grpc.UseCompressor(gzip.Name))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a compressed request: %v", err)
	}
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = ""
	}
	if r, err := p.RPC().Open(soon(t), &backstorepb.OpenRequest{Config: many}); err != nil || r.Error == nil {
		t.Errorf("a thousand settings: %v, %v", err, r)
	}
	openRaw(t, p)
}

func TestGarbageOnTheSocketDisturbsNobody(t *testing.T) {
	need(t)
	p := raw(t, cChecked.path)
	path := socketOf(t, p)
	rnd := rand.New(rand.NewPCG(1, 1))
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	for round := range 200 {
		c := dial(t, path)
		junk := make([]byte, rnd.IntN(4096))
		for i := range junk {
			junk[i] = byte(rnd.Uint32())
		}
		if round%2 == 0 {
			junk = append(bytes.Clone(preface), junk...)
		}
		if round%4 == 0 && len(junk) > len(preface)+9 {
			// The frame that follows is a short one of a kind that there is, on stream 1.
			copy(junk[len(preface):], []byte{0, 0, byte(rnd.IntN(64)), byte(rnd.IntN(10)), byte(rnd.Uint32()), 0, 0, 0, 1})
		}
		_, _ = c.Write(junk) // the plugin may have closed it already
		c.Close()
	}
	openRaw(t, p)
	if r, err := p.RPC().Health(soon(t), &backstorepb.HealthRequest{}); err != nil {
		t.Errorf("%v, %v", err, r)
	}
}

// dial connects, and waits for room in the listener's queue.
func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			return c
		}
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// socketOf finds the socket that a plugin listens on.
func socketOf(t *testing.T, p *bridge.Process) string {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, dir, found := strings.Cut("\x00"+string(env), "\x00PLUGIN_UNIX_SOCKET_DIR=")
	dir, _, ended := strings.Cut(dir, "\x00")
	if !found || !ended {
		t.Fatalf("the environment is %q", env)
	}
	return filepath.Join(dir, "backstore")
}
