package roce

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// openMAD registers on a device for the time of the test.
func openMAD(t *testing.T, d rdma.Device, class ib.Class, methods ...ib.Method) rdma.MADPort {
	t.Helper()
	p, err := d.(rdma.MADDevice).OpenMAD(1, rdma.MADConfig{Class: class, Version: 1, Methods: methods})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestConnectionManagementIsNobodyElses(t *testing.T) {
	leaktest.Check(t)
	_, dev := loopback(t, "127.0.0.2")
	for _, methods := range [][]ib.Method{nil, {ib.MethodGet}} {
		if _, err := dev.(rdma.MADDevice).OpenMAD(1, rdma.MADConfig{Class: ib.ClassComm, Methods: methods}); !errors.Is(err, rdma.ErrInUse) {
			t.Errorf("methods %v: %v, want ErrInUse", methods, err)
		}
	}
}

// An asker that is no queue pair 1 gets its answer, and of a short datagram the reader learns the length.
func TestDatagramIsHandedOutAsItCame(t *testing.T) {
	leaktest.Check(t)
	_, dev := loopback(t, "127.0.0.2")
	agent := openMAD(t, dev, ib.ClassDeviceMgmt, ib.MethodGet)
	s := newStranger(t, "127.0.0.9")
	short := []byte{1, byte(ib.ClassDeviceMgmt), 1, byte(ib.MethodGet), 5, 6, 7, 8}
	s.send(gsiPacket(s, short))
	b := make([]byte, rdma.MADBufferSize)
	n, from, err := agent.Receive(context.Background(), b)
	if err != nil || string(b[:n]) != string(short) {
		t.Fatalf("received %x, %v", b[:n], err)
	}
	want := rdma.MADAddr{QPN: ib.QPGeneralServices, HasGRH: true, GRH: rdma.MADRoute{
		GID: gidOf(netip.MustParseAddr("127.0.0.9")), HopLimit: 255}}
	if from != want {
		t.Errorf("from %+v, want %+v", from, want)
	}
}

func TestDatagramToWhereThePortHasNoAddressIsRefused(t *testing.T) {
	leaktest.Check(t)
	_, dev := loopback(t, "127.0.0.2")
	p := openMAD(t, dev, ib.ClassDeviceMgmt)
	good := rdma.MADAddr{QPN: 1, HasGRH: true, GRH: rdma.MADRoute{GID: gidOf(netip.MustParseAddr("127.0.0.9"))}}
	v6, index, key := good, good, good
	v6.GRH.GID, index.GRH.GIDIndex, key.PKeyIndex = gidOf(netip.MustParseAddr("fd00::1")), 1, 1
	m := make([]byte, ib.MADSize)
	if err := p.Send(good, m); err != nil {
		t.Error(err)
	}
	for name, to := range map[string]rdma.MADAddr{"another IP version": v6, "no such GID": index, "no such P_Key": key} {
		if err := p.Send(to, m); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
