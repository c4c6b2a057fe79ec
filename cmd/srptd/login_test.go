package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/srp"
)

// quietLUN is a daemon's LUN and a log level that does not show each refusal.
func quietLUN() []string {
	return []string{"--lun", "lun=0,path=DIR/disk,size=8MiB", "--log-level", "error"}
}

func TestLoginThatCannotBeServedIsRejectedWithItsReason(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	end := newLoad(t, dial(t, s, 0), 0, 8).background(t)
	p := newPeer(t, s)
	rows := []struct {
		name   string
		change func(r *srp.LoginReq, private []byte)
		want   srp.RejReason
	}{
		{"another type", func(_ *srp.LoginReq, b []byte) { b[11] = byte(srp.OpCmd) }, srp.RejNoReason},
		{"type of a response", func(_ *srp.LoginReq, b []byte) { b[11] = byte(srp.OpLoginRsp) }, srp.RejNoReason},
		{"reserved flag 04h", func(_ *srp.LoginReq, b []byte) { b[10] |= 4 }, srp.RejNoReason},
		{"reserved flag 08h", func(_ *srp.LoginReq, b []byte) { b[10] |= 8 }, srp.RejNoReason},
		{"multi-channel action 2", func(_ *srp.LoginReq, b []byte) { b[10] |= 2 }, srp.RejNoReason},
		{"multi-channel action 3", func(_ *srp.LoginReq, b []byte) { b[10] |= 3 }, srp.RejNoReason},
		{"units of no length", func(_ *srp.LoginReq, b []byte) { putUint32(b[12:], 0) }, srp.RejITIULength},
		{"units of 63 bytes", func(_ *srp.LoginReq, b []byte) { putUint32(b[12:], 63) }, srp.RejITIULength},
		{"units of 64 KiB", func(_ *srp.LoginReq, b []byte) { putUint32(b[12:], 65536) }, srp.RejITIULength},
		{"units of 4 GiB", func(_ *srp.LoginReq, b []byte) { putUint32(b[12:], 1<<32-1) }, srp.RejITIULength},
		{"no format", func(_ *srp.LoginReq, b []byte) { b[8], b[9] = 0, 0 }, srp.RejFormat},
		{"an unknown format", func(_ *srp.LoginReq, b []byte) { b[9] = 1 }, srp.RejFormat},
		{"an unknown format besides", func(_ *srp.LoginReq, b []byte) { b[8] = 0x80 }, srp.RejFormat},
		{"another target id_ext", func(_ *srp.LoginReq, b []byte) { b[39]++ }, srp.RejNexus},
		{"another target ioc_guid", func(_ *srp.LoginReq, b []byte) { b[47]++ }, srp.RejNexus},
		{"the halves of the target id swapped", func(_ *srp.LoginReq, b []byte) {
			copy(b[32:], append(bytes.Clone(b[40:48]), b[32:40]...))
		}, srp.RejNexus},
		{"no target id", func(_ *srp.LoginReq, b []byte) { clear(b[32:48]) }, srp.RejNexus},
		{"no initiator id", func(_ *srp.LoginReq, b []byte) { clear(b[16:32]) }, srp.RejNexus},
		{"nothing but zeros", func(r *srp.LoginReq, b []byte) { clear(b); r.Tag = 0 }, srp.RejITIULength},
	}
	for _, row := range rows {
		r := loginRequest()
		private := r.AppendRDMA(nil)
		row.change(&r, private)
		expectReject(t, row.name, p.connect(p.request(private)), row.want, r.Tag)
	}
	r := loginRequest()
	noHeader := p.request(nil)
	noHeader.Private = append([]byte{byte(srp.OpCmd), 0x50}, r.Append(nil)[2:]...)
	expectReject(t, "neither IP header nor login", p.connect(noHeader), srp.RejNoReason, r.Tag)
	readless := p.request(r.AppendRDMA(nil))
	readless.ResponderResources = 0
	expectReject(t, "no responder resources", p.connect(readless), srp.RejResources, r.Tag)
	end()

	st, total := s.status(t), uint64(0)
	for _, n := range st.RefusedLogins {
		total += n
	}
	if want := uint64(len(rows) + 2); total != want || st.Counters["logins_refused"] != want || st.Sessions != 1 {
		t.Errorf("refused logins: %v, %d together, want %d; %d sessions, want 1", st.RefusedLogins, total, want, st.Sessions)
	}
}

func putUint32(b []byte, n uint32) { binary.BigEndian.PutUint32(b, n) }

// expectReject expects REJ 28 with a whole SRP_LOGIN_REJ and nothing after it.
func expectReject(t *testing.T, name string, m cm.Message, want srp.RejReason, tag srp.Tag) {
	t.Helper()
	if m.Attr() != cm.AttrREJ || m.REJ().Reason() != cm.ReasonConsumer {
		t.Errorf("%s: answered with %v, want REJ 28", name, describe(m))
		return
	}
	rej := srp.LoginRej{Reason: want, Tag: tag, Formats: srp.FormatsDirect | srp.FormatsIndirect}
	exact := append(rej.Append(nil), make([]byte, cm.REJPrivateSize-srp.LoginRejLen)...)
	if !bytes.Equal(m.REJ().Private(), exact) {
		t.Errorf("%s: answered with %v, want %v and tag %v\n%x", name, describe(m), want, tag, m.REJ().Private())
	}
}

func TestRequestThatTheConnectionManagerCannotServeIsRejectedByIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	p := newPeer(t, s)
	r := loginRequest()
	for name, row := range map[string]struct {
		change func(*cm.REQFields)
		want   cm.Reason
	}{
		"another port":      {func(f *cm.REQFields) { f.ServiceID++ }, cm.ReasonInvalidService},
		"UDP port space":    {func(f *cm.REQFields) { f.ServiceID = 0x0111_0000 | testPort }, cm.ReasonInvalidService},
		"path MTU 0":        {func(f *cm.REQFields) { f.PathMTU = 0 }, cm.ReasonInvalidMTU},
		"path MTU 6":        {func(f *cm.REQFields) { f.PathMTU = 6 }, cm.ReasonInvalidMTU},
		"queue pair 0":      {func(f *cm.REQFields) { f.LocalQPN = 0 }, cm.ReasonUnsupported},
		"queue pair 1":      {func(f *cm.REQFields) { f.LocalQPN = ib.QPGeneralServices }, cm.ReasonUnsupported},
		"another partition": {func(f *cm.REQFields) { f.PKey = 0x9234 }, cm.ReasonUnsupported},
		"partition 0":       {func(f *cm.REQFields) { f.PKey = 0 }, cm.ReasonUnsupported},
		"service id of all": {func(f *cm.REQFields) { f.ServiceID = 1<<64 - 1 }, cm.ReasonInvalidService},
	} {
		f := p.request(r.AppendRDMA(nil))
		row.change(f)
		if m := p.connect(f); m.Attr() != cm.AttrREJ || m.REJ().Reason() != row.want {
			t.Errorf("%s: answered with %v, want REJ %v", name, describe(m), row.want)
		}
	}
	if n := s.counter(t, "cm_refused"); n != 9 {
		t.Errorf("cm_refused is %d, want 9", n)
	}
}

func TestLoginIsAcceptedWithoutWhatCannotBeGranted(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	p := newPeer(t, s)
	for name, row := range map[string]struct {
		offset  uint16
		granted bool
	}{
		"offset 0":     {0, false},
		"offset 47":    {47, false},
		"offset 51":    {51, false},
		"offset 52":    {52, true},
		"offset 68":    {68, true},
		"offset 513":   {513, false},
		"offset 65535": {65535, false},
	} {
		r := loginRequest()
		r.Flags, r.ImmediateOffset = srp.LoginImmediate, row.offset
		rep := p.login(&r)
		rsp, err := srp.ParseLoginRsp(rep.Private())
		if err != nil || rsp.Tag != r.Tag || rsp.Delta < 2 || rsp.Flags&srp.LoginRspImmediate != 0 != row.granted {
			t.Errorf("%s: %+v, %v; granted should be %v", name, rsp, err, row.granted)
		}
		p.leave(rep)
	}
	// The 64-byte form of a request without IP addressing.
	r := loginRequest()
	f := p.request(nil)
	f.Private = r.Append(nil)
	m := p.connect(f)
	if m.Attr() != cm.AttrREP {
		t.Fatalf("a login without IP addressing is answered with %v", describe(m))
	}
	p.leave(m.REP())
	eventually(t, "no session is left", func() bool { return len(s.sessions(t)) == 0 })
}
