package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

// sendSize asks the port of a LID for the profile of the controller in slot 1, and returns the four bytes at 108 of the answer.
func sendSize(t *testing.T, from *rdmatest.Device, lid ib.LID) uint32 {
	t.Helper()
	p, err := from.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: mad.ClassVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	query := make([]byte, ib.MADSize)
	query[0], query[1], query[2], query[3] = ib.MADBaseVersion, byte(ib.ClassDeviceMgmt), mad.ClassVersion, 1 // Get
	binary.BigEndian.PutUint64(query[8:], 0x1234)
	binary.BigEndian.PutUint16(query[16:], 0x0011) // IOControllerProfile
	binary.BigEndian.PutUint32(query[20:], 1)
	if err := p.Send(rdma.MADAddr{LID: lid, QPN: ib.QPGeneralServices}, query); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, rdma.MADBufferSize)
	if n, _, err := p.Receive(soon(t), b); err != nil || n < 112 || b[3] != 0x81 {
		t.Fatalf("% x, %v", b[:max(n, 0)], err)
	}
	return binary.BigEndian.Uint32(b[108:])
}

// asks logs in with units of a length, and returns the answer of the target.
func asks(t *testing.T, loop *rdmatest.Loop, length uint32) []byte {
	t.Helper()
	r := loginRequest()
	r.MaxITIU = length
	e := loop.NewEnd(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
	defer e.Close()
	e.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: netip.AddrPortFrom(netip.MustParseAddr("fe80::1"), testPort)}, Private: r.AppendRDMA(nil)})
	c := e.Next()
	if accepted := c.Event == rdma.EventEstablished; !accepted && (c.Event != rdma.EventRejected || c.Reason != rdma.RejectConsumer) {
		t.Fatalf("%+v", c)
	}
	return c.Data
}

// TestDiscoveryAndLoginAgreeOnTheLengthOfUnits is case B04.1 and B04.2, also under another plan.
func TestDiscoveryAndLoginAgreeOnTheLengthOfUnits(t *testing.T) {
	d, ours, peer := onFabric(t)
	ours.Add(rdmatest.DeviceConfig{Name: "hca", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1")}, LID: 1})
	eventually(t, "discovery is answered", func() bool { f := source{d}.Fabric(); return len(f.Hcas) == 1 && f.Hcas[0].Ports[0].Discovery })
	loop := rdmatest.NewLoop(t, peer, rdma.CQConfig{Depth: 16})
	for _, length := range []uint32{8276, 2132} {
		plan := d.target.Plan()
		plan.MaxRequestIU = length
		if err := errors.Join(d.target.SetPlan(plan), d.announce(&plan)); err != nil {
			t.Fatal(err)
		}
		m := sendSize(t, peer, 1)
		if m != length {
			t.Errorf("discovery tells of units of %d bytes, want %d", m, length)
		}
		for _, row := range []struct {
			length  uint32
			granted bool
		}{{63, false}, {64, true}, {m, true}, {m + 1, false}} {
			want := "c0000000000000401122334455667788" + fmt.Sprintf("%08x", m)
			if !row.granted {
				want = "c2000000000100021122334455667788" + "0000000000000000" + "0006"
			}
			if got := hex.EncodeToString(asks(t, loop, row.length)); !strings.HasPrefix(got, want) {
				t.Errorf("units of %d bytes, %d are told: answered with %s, want %s", row.length, m, got, want)
			}
		}
	}
}

func TestDiscoveryFollowsThePlanInForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, ours, peer := onFabric(t, func(c *config.Config) {
		c.PluginDirs, c.IOCtx = []string{dir}, config.IOCtx{Plugin: "ioctx", Config: map[string]string{"max_request_iu": "2KiB"}}
	})
	ours.Add(rdmatest.DeviceConfig{Name: "hca", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1")}, LID: 1})
	eventually(t, "discovery is answered", func() bool { f := source{d}.Fabric(); return len(f.Hcas) == 1 && f.Hcas[0].Ports[0].Discovery })
	if m := sendSize(t, peer, 1); m != 8276 {
		t.Errorf("discovery tells of units of %d bytes, the configuration's plan has 8276", m)
	}
	(&campaign{dir: dir}).install(t, "ioctx", "ioctx")
	eventually(t, "discovery tells of the plugin's plan", func() bool { return sendSize(t, peer, 1) == 2048 })
}

const (
	immediateOffset = 80
	immediateBytes  = 16 * 512
)

// immediateWrite is a WRITE(10) of 16 blocks at an LBA whose unit says that it has length bytes of immediate data.
func immediateWrite(lba byte, length uint32, data []byte) []byte {
	u := make([]byte, immediateOffset, immediateOffset+len(data))
	u[0], u[5], u[15] = byte(srp.OpCmd), 0x30, 7
	copy(u[32:], []byte{0x2a, 0, 0, 0, 0, lba, 0, 0, 16, 0})
	binary.BigEndian.PutUint32(u[48:], length)
	return append(u, data...)
}

// TestImmediateDataIsWrittenAsFarAsItCame is case B04.3 to B04.5.
func TestImmediateDataIsWrittenAsFarAsItCame(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	h := newComputer(t)
	data := make([]byte, immediateBytes)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	login := func(flags srp.LoginFlags) *hostile.Channel {
		r := loginRequest()
		r.MaxITIU, r.Flags, r.ImmediateOffset = immediateOffset+immediateBytes, flags, immediateOffset
		c, rsp := hostile.Login(t, h.peer(s), r)
		if granted := rsp.Flags&srp.LoginRspImmediate != 0; granted != (flags != 0) {
			t.Fatalf("flags %02x: granted %v", flags, granted)
		}
		c.Put((&srp.CmdFields{Tag: 1, LUN: lunOf(0), CDB: make([]byte, 6)}).Append(nil))
		c.Unit() // the unit attention
		return c
	}
	disk := func(lba int) []byte {
		t.Helper()
		b, err := os.ReadFile(s.file("disk"))
		if err != nil || len(b) < (lba+16)*512 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		return b[lba*512 : (lba+16)*512]
	}

	c := login(srp.LoginImmediate)
	c.Put(immediateWrite(0, immediateBytes, data))
	rsp, err := srp.ParseRsp(c.Unit())
	if err != nil || rsp.Status() != 0 || rsp.Flags() != 0 || rsp.Tag() != 7 {
		t.Fatalf("% x, %v", []byte(rsp), err)
	}
	if !bytes.Equal(disk(0), data) {
		t.Error("the disk does not have what was sent")
	}
	c.Close()

	whole := immediateWrite(32, immediateBytes, data)
	for _, row := range []struct {
		name  string
		flags srp.LoginFlags
		unit  []byte
		want  srp.LogoutReason
	}{
		{"one byte more than came", srp.LoginImmediate, immediateWrite(32, 0x2001, data), srp.LogoutLength},
		{"a length that wraps with the offset", srp.LoginImmediate, immediateWrite(32, 0xFFFFFFB0, data), srp.LogoutLength},
		{"4 GiB less one", srp.LoginImmediate, immediateWrite(32, 0xFFFFFFFF, data), srp.LogoutLength},
		{"a byte is missing", srp.LoginImmediate, whole[:len(whole)-1], srp.LogoutLength},
		{"no data at all", srp.LoginImmediate, whole[:immediateOffset], srp.LogoutLength},
		{"ends in the descriptor", srp.LoginImmediate, whole[:51], srp.LogoutLength},
		{"never granted", 0, whole, srp.LogoutFormatOut},
	} {
		c := login(row.flags)
		c.Put(row.unit)
		if err := c.Expect(hostile.LogoutWith(row.want)); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		c.Close()
		if !bytes.Equal(disk(32), make([]byte, immediateBytes)) {
			t.Errorf("%s: something was written", row.name)
		}
	}
	session := h.login(t, h.config(s), 0)
	got := make([]byte, immediateBytes)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := session.Read(ctx, lunOf(0), 0, 16, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back: %v", err)
	}
}
