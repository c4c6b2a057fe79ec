//go:build verbs

package verbs

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// fakeKernel is the other end of a port's descriptor: it reads what ib_umad would, and writes what it would hand out. The descriptor is
// a socket, on which the port waits as it does on that of the kernel.
type fakeKernel struct {
	*testing.T
	fd int
}

// agentID is the agent of the ports under test.
const agentID = 0x11

func newFakeKernel(t *testing.T) (fakeKernel, *umadMADs) {
	t.Helper()
	leaktest.Check(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := newUMADFile(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := file.(*kernelFile); !ok {
		t.Fatalf("a descriptor of the kernel's is waited on as %T", file)
	}
	p := &umadMADs{name: "fake port 1", agent: agentID, file: file}
	t.Cleanup(func() { unix.Close(pair[1]) })
	t.Cleanup(func() { p.Close() })
	return fakeKernel{t, pair[1]}, p
}

// deliver hands out a datagram, or whatever b is.
func (k fakeKernel) deliver(b []byte) {
	k.Helper()
	if _, err := unix.Write(k.fd, b); err != nil {
		k.Fatal(err)
	}
}

// takes reads what the port has sent.
func (k fakeKernel) takes() umadMAD {
	k.Helper()
	b := make([]byte, 1<<16)
	n, err := unix.Read(k.fd, b)
	if err != nil {
		k.Fatal(err)
	}
	return b[:n]
}

func madRequest(tid uint64) []byte {
	h := ib.MADHeader{BaseVersion: 1, Class: ib.ClassDeviceMgmt, ClassVersion: 1, Method: ib.MethodGet, TID: tid, AttrID: 0x10}
	return append(h.Append(nil), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
}

func receiveMAD(t *testing.T, p rdma.MADPort) (ib.MAD, rdma.MADAddr) {
	t.Helper()
	b := make([]byte, rdma.MADBufferSize)
	n, from, err := p.Receive(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n], from
}

// The row "Response addressed back with requester's P_Key index, GRH" of every agent: the answer goes to the sender's LID, queue pair and
// GID, in its partition, and its transaction id is the request's.
func TestAnswerGoesBackTheWayItsRequestCame(t *testing.T) {
	k, p := newFakeKernel(t)
	local := rdma.MADAddr{LID: 9, QPN: 1, SL: 3, PathBits: 2, PKeyIndex: 4}
	for _, from := range []rdma.MADAddr{routed, local} {
		k.deliver(appendUMAD(nil, agentID, 0, 0, from, madRequest(0xCAFE_0000_0007)))
		m, got := receiveMAD(t, p)
		if got != from {
			t.Fatalf("from %+v, want %+v", got, from)
		}
		m.SetMethod(ib.MethodGetResp)
		if err := p.Send(got, m); err != nil {
			t.Fatal(err)
		}
		sent := k.takes()
		if sent.from() != from || ib.MAD(sent.mad()).TID() != 0xCAFE_0000_0007 || len(sent.mad()) != ib.MADSize {
			t.Errorf("answer %x to %+v", []byte(sent), sent.from())
		}
		if agent, wait := binary.NativeEndian.Uint32(sent), binary.NativeEndian.Uint64(sent[8:]); agent != agentID || wait != 0 {
			t.Errorf("answer of agent %d waits for an answer: %x", agent, wait)
		}
	}
}

func TestRequestIsKeptByTheKernelForItsAnswer(t *testing.T) {
	k, p := newFakeKernel(t)
	if err := p.Send(routed, madRequest(5)); err != nil {
		t.Fatal(err)
	}
	sent := k.takes()
	if wait, times := binary.NativeEndian.Uint32(sent[8:]), binary.NativeEndian.Uint32(sent[12:]); wait != 2000 || times != 4 {
		t.Errorf("sent again after %d ms, %d times", wait, times)
	}
}

func TestRequestThatNobodyAnswersIsLostAndNotReceived(t *testing.T) {
	k, p := newFakeKernel(t)
	unanswered := appendUMAD(nil, agentID, 0, 0, routed, madRequest(1))
	binary.NativeEndian.PutUint32(unanswered[4:], uint32(unix.ETIMEDOUT))
	k.deliver(unanswered)
	k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(2)))
	if m, _ := receiveMAD(t, p); m.TID() != 2 {
		t.Errorf("received transaction %d", m.TID())
	}
}

func TestDatagramsOfEveryLengthComeAsTheyAre(t *testing.T) {
	k, p := newFakeKernel(t)
	for _, n := range []int{0, 1, ib.MADHeaderSize, ib.MADSize - 1, ib.MADSize, ib.MADSize + 1, rdma.MADBufferSize} {
		k.deliver(appendUMAD(nil, agentID, 0, 0, routed, make([]byte, n)))
		if m, from := receiveMAD(t, p); len(m) != n || from != routed {
			t.Errorf("%d bytes came as %d from %+v", n, len(m), from)
		}
	}
	for _, n := range []int{1, umadAddress, umadHeader - 1} {
		k.deliver(make([]byte, n))
	}
	k.deliver(appendUMAD(nil, agentID, 0, 0, routed, []byte("whole")))
	if m, _ := receiveMAD(t, p); string(m) != "whole" {
		t.Errorf("after headers cut short came %q", m)
	}
}

// madEndsReceive checks that end wakes a reader with want.
func madEndsReceive(t *testing.T, p rdma.MADPort, ctx context.Context, end func(), want error) {
	t.Helper()
	woken, started := make(chan error, 1), make(chan struct{})
	go func() {
		close(started)
		_, _, err := p.Receive(ctx, make([]byte, rdma.MADBufferSize))
		woken <- err
	}()
	<-started
	end()
	if err := <-woken; !errors.Is(err, want) {
		t.Errorf("Receive: %v, want %v", err, want)
	}
}

func TestCloseEndsReceiveAndIsFinal(t *testing.T) {
	_, p := newFakeKernel(t)
	madEndsReceive(t, p, context.Background(), func() { p.Close() }, rdma.ErrClosed)
	if _, _, err := p.Receive(context.Background(), make([]byte, rdma.MADBufferSize)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := p.Receive(ended, make([]byte, rdma.MADBufferSize)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Receive with a context that has ended: %v", err)
	}
	if err := p.Send(routed, madRequest(1)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestContextEndsOneReceiveAndNotTheNext(t *testing.T) {
	k, p := newFakeKernel(t)
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		madEndsReceive(t, p, ctx, cancel, context.Canceled)
		k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(3)))
		if m, _ := receiveMAD(t, p); m.TID() != 3 {
			t.Fatalf("received transaction %d", m.TID())
		}
		k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(4)))
		if _, _, err := p.Receive(ctx, make([]byte, rdma.MADBufferSize)); err != nil {
			t.Fatalf("what was there was not returned: %v", err)
		}
	}
}

// A device that is removed while a port waits: the kernel gives EIO, here the end of the file.
func TestLostDeviceEndsReceiveWithAnError(t *testing.T) {
	k, p := newFakeKernel(t)
	if err := unix.Shutdown(k.fd, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	for _, ctx := range bothContexts() {
		if _, _, err := p.Receive(ctx, make([]byte, rdma.MADBufferSize)); err == nil || errors.Is(err, rdma.ErrClosed) {
			t.Errorf("Receive: %v", err)
		}
	}
	if err := p.Send(routed, madRequest(1)); err == nil {
		t.Error("Send to a lost device")
	}
}

// bothContexts are one that lives and one that has ended.
func bothContexts() []context.Context {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return []context.Context{context.Background(), ended}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	_, p := newFakeKernel(t)
	if _, _, err := p.Receive(context.Background(), make([]byte, rdma.MADBufferSize-1)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("Receive with too little room: %v", err)
	}
	for _, b := range [][]byte{nil, madRequest(1)[:ib.MADSize-1], append(madRequest(1), 0)} {
		if err := p.Send(routed, b); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("Send of %d bytes: %v", len(b), err)
		}
	}
	if err := p.Send(rdma.MADAddr{QPN: 1}, madRequest(1)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("Send to nobody: %v", err)
	}
	good := rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1}
	for _, c := range []struct {
		ca   string
		port int
		cfg  rdma.MADConfig
	}{
		{"x", 0, good}, {"x", -1, good}, {"x", 256, good}, {"", 1, good}, {"../x", 1, good}, {strings.Repeat("x", 20), 1, good}, {"a\x00b", 1, good},
		{"x", 1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1, Methods: []ib.Method{ib.MethodGetResp}}},
	} {
		if _, err := OpenUMAD(c.ca, c.port, c.cfg); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("OpenUMAD(%q, %d, %+v): %v", c.ca, c.port, c.cfg, err)
		}
	}
	for _, name := range []string{"", ".", "../../etc", "none"} {
		if _, err := ReadUMADAdapter(name); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("ReadUMADAdapter(%q): %v", name, err)
		}
	}
}

// refusing is a descriptor whose write fails.
type refusing struct{ err error }

func (r *refusing) read(context.Context, []byte) (int, error) { return 0, os.ErrClosed }
func (r *refusing) write([]byte) error                        { return r.err }
func (r *refusing) close() error                              { return nil }

// The kernel refuses a request that it is still sending by itself. To ask again is no error; to ask somebody who cannot be reached is.
func TestAskingAgainWhileTheKernelAsksIsNoError(t *testing.T) {
	r := &refusing{}
	p := &umadMADs{name: "fake", file: r}
	if err := p.Send(routed, madRequest(1)); err != nil {
		t.Fatal(err)
	}
	r.err = unix.EINVAL
	if err := p.Send(routed, madRequest(1)); err != nil {
		t.Errorf("the same request: %v", err)
	}
	elsewhere := routed
	elsewhere.LID++
	for name, err := range map[string]error{"another request": p.Send(routed, madRequest(2)), "another destination": p.Send(elsewhere, madRequest(1))} {
		if !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	p.lastAt = time.Now().Add(-time.Hour)
	if err := p.Send(routed, madRequest(1)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("the same request after an hour: %v, want ErrInvalid", err)
	}
	r.err = unix.EIO
	if err := p.Send(routed, madRequest(1)); !errors.Is(err, unix.EIO) || errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("a device that has gone: %v", err)
	}
}

func TestAnsweringAQueryAllocatesLittle(t *testing.T) {
	k, p := newFakeKernel(t)
	in, b, out := appendUMAD(nil, agentID, 0, 0, routed, madRequest(1)), make([]byte, rdma.MADBufferSize), make([]byte, 1024)
	answer := func() {
		k.deliver(in)
		n, from, err := p.Receive(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		ib.MAD(b).SetMethod(ib.MethodGetResp)
		if err := p.Send(from, b[:n]); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Read(k.fd, out); err != nil {
			t.Fatal(err)
		}
	}
	answer()
	if n := testing.AllocsPerRun(1000, answer); n > 4 {
		t.Errorf("%v allocations for each query", n)
	}
}

func TestProblemsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{umadOpenProblem(unix.EACCES), "root"}, {umadOpenProblem(unix.ENOENT), "udev"}, {umadOpenProblem(unix.ENODEV), "no such port"},
		{umadOpenProblem(errNoUMAD), "ib_umad"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v does not say %q", c.err, c.want)
		}
	}
	here := t.TempDir()
	for _, c := range []struct {
		class  ib.Class
		module string
		want   string
	}{
		{ib.ClassDeviceMgmt, here, "modprobe -r ib_srpt"}, {ib.ClassDeviceMgmt, filepath.Join(here, "none"), "another process"},
		{ib.ClassPerf, here, "another process"},
	} {
		if s := umadOwner(c.class, c.module); !strings.Contains(s.Error(), c.want) || !errors.Is(s, rdma.ErrInUse) {
			t.Errorf("class %v: %q does not say %q", c.class, s, c.want)
		}
	}
}

func TestGIDTableKeepsItsPlaces(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]string{"0": "fe80:0000:0000:0000:0002:c903:0011:2234", "1": "0000:0000:0000:0000:0000:0000:0000:0000",
		"2": "0000:0000:0000:0000:0000:ffff:0a00:0001", "3": "0000:0000:0000:0000:0000:0000:0000:0000"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []ib.GID{ib.MakeGID(ib.LinkLocalPrefix, 0x0002c90300112234), {}, ib.GIDFromIPv4([4]byte{10, 0, 0, 1})}
	if got := readGIDs(dir); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := readGIDs(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("of no table: %v", got)
	}
}
