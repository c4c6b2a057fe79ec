//go:build verbs

package verbs

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// newFakeDevice is a device of which nothing is open but a port's descriptor.
func newFakeDevice(t *testing.T) (fakeKernel, *Device, *deviceMADs) {
	t.Helper()
	k, open := newFakeKernel(t)
	d := &Device{name: "fake", ports: 1, mads: make(map[*deviceMADs]struct{})}
	p := newDeviceMADs(d, open)
	d.mads[p] = struct{}{}
	t.Cleanup(func() { p.Close() })
	return k, d, p
}

func TestLateReaderGetsTheOldestDatagramsAndTheRestIsCounted(t *testing.T) {
	k, d, p := newFakeDevice(t)
	const more = 50
	for i := range uint64(madBacklog + more) {
		k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(i)))
	}
	for d.counts.madsLost.Load() != more {
		time.Sleep(time.Millisecond)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	b := make([]byte, rdma.MADBufferSize)
	for i := range uint64(madBacklog) {
		n, from, err := p.Receive(ended, b)
		if err != nil || n != ib.MADSize || from != routed || ib.MAD(b).TID() != i {
			t.Fatalf("datagram %d: %d bytes, transaction %d, from %+v, %v", i, n, ib.MAD(b).TID(), from, err)
		}
	}
	if _, _, err := p.Receive(ended, b); !errors.Is(err, context.Canceled) {
		t.Errorf("Receive of nothing: %v", err)
	}
	k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(7)))
	if m, _ := receiveMAD(t, p); m.TID() != 7 {
		t.Errorf("afterwards came transaction %d", m.TID())
	}
}

func TestDeviceThatIsPulledOutEndsReceiveAndLeavesNothingOpen(t *testing.T) {
	k, d, p := newFakeDevice(t)
	k.deliver(appendUMAD(nil, agentID, 0, 0, routed, madRequest(1)))
	if err := unix.Shutdown(k.fd, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if m, _ := receiveMAD(t, p); m.TID() != 1 {
		t.Errorf("received transaction %d", m.TID())
	}
	for range 2 {
		if _, _, err := p.Receive(context.Background(), make([]byte, rdma.MADBufferSize)); err == nil || errors.Is(err, rdma.ErrClosed) {
			t.Errorf("Receive: %v", err)
		}
	}
	d.die()
	if _, err := d.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1}); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("OpenMAD: %v, want ErrClosed", err)
	}
	if errs := errors.Join(d.closeMADs()...); errs != nil || len(d.mads) != 0 {
		t.Errorf("closing: %v, %d are left", errs, len(d.mads))
	}
	if _, _, err := p.Receive(context.Background(), make([]byte, rdma.MADBufferSize)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Receive after Close: %v, want ErrClosed", err)
	}
	if err := p.Send(routed, madRequest(1)); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Send after Close: %v, want ErrClosed", err)
	}
}

func TestCloseDoesNotWaitForTheReader(t *testing.T) {
	k, _, p := newFakeDevice(t)
	madEndsReceive(t, p, context.Background(), func() { p.Close() }, rdma.ErrClosed)
	if err := p.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	b := make([]byte, 1)
	if n, err := unix.Read(k.fd, b); n != 0 || err != nil {
		t.Errorf("the descriptor is still open: %d, %v", n, err)
	}
}

func TestKernelIsAskedAgainWhenItsTargetIsGoneOrAfterAWhile(t *testing.T) {
	now := time.Now()
	here, gone := t.TempDir(), t.TempDir()+"/none"
	for _, c := range []struct {
		name   string
		last   conflict
		module string
		want   bool
	}{
		{"never asked", conflict{}, here, false},
		{"the target is there", conflict{rdma.ErrInUse, now.Add(1)}, here, true},
		{"the target is gone", conflict{rdma.ErrInUse, now.Add(1)}, gone, false},
		{"a while has passed", conflict{rdma.ErrInUse, now}, here, false},
	} {
		if got := c.last.holds(c.module, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
