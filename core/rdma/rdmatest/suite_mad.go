package rdmatest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// The checks of devices that are rdma.MADDevices; with others they are skipped.
var madChecks = []check{
	{"AnswerComesBackToTheAsker", madAnswerComesBack},
	{"RequestCarriesItsSender", madCarriesItsSender},
	{"EachAskerGetsItsOwnAnswer", madAskersAreApart},
	{"ClassesAreApart", madClassesAreApart},
	{"ClassIsTakenOnce", madClassIsTakenOnce},
	{"ClassIsFreeAfterClose", madClassIsFreeAfterClose},
	{"CloseEndsReceive", madCloseEndsReceive},
	{"DeviceCloseEndsReceive", madDeviceCloseEndsReceive},
	{"ContextEndsReceive", madContextEndsReceive},
	{"BadArgumentsAreRefused", madBadArguments},
	{"ALateReaderBoundsMemory", madLateReader},
}

// The class of the checks is that of the vendors' first range (IBTA vol 1, 13.4.4), so that no agent of the system is in the way.
const madClass ib.Class = 0x09

var madMethods = []ib.Method{ib.MethodGet, ib.MethodSet}

// openMAD registers on a device until the end of the test, which is skipped if the device has no datagrams.
func (r *rig) openMAD(d rdma.Device, class ib.Class, methods []ib.Method) rdma.MADPort {
	r.Helper()
	m, ok := d.(rdma.MADDevice)
	if !ok {
		r.Skipf("%s takes no management datagrams", d.Name())
	}
	if r.Lossy {
		r.Skip("the network loses datagrams")
	}
	p, err := m.OpenMAD(1, rdma.MADConfig{Class: class, Version: 1, Methods: methods})
	if d.Attr().IWARP && errors.Is(err, rdma.ErrUnsupported) {
		r.Skip("iWARP: there are no management datagrams")
	}
	r.must(err)
	r.Cleanup(func() { p.Close() })
	return p
}

// madAddr is B's address as A writes it.
func (r *rig) madAddr() rdma.MADAddr {
	r.Helper()
	ports, err := r.A.Ports()
	r.must(err)
	i := slices.Index(ports[0].GIDs, gidOf(r.MADAddrA))
	if i < 0 {
		r.Fatalf("the GIDs of %s lack that of %v", r.A.Name(), r.MADAddrA)
	}
	return rdma.MADAddr{QPN: ib.QPGeneralServices, HasGRH: true,
		GRH: rdma.MADRoute{GID: gidOf(r.MADAddrB), GIDIndex: uint8(i), HopLimit: 64}}
}

// madRequest is a datagram; seed is the lower half of its transaction id.
func madRequest(class ib.Class, seed uint32) []byte {
	h := ib.MADHeader{BaseVersion: 1, Class: class, ClassVersion: 1, Method: ib.MethodGet, TID: 0xFFFFFFFF<<32 | uint64(seed), AttrID: 0x10, AttrMod: seed}
	b := append(h.Append(nil), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
	pattern(b[ib.MADHeaderSize:], uint64(seed))
	return b
}

// receiveMAD waits for a datagram, which has to be whole.
func (r *rig) receiveMAD(p rdma.MADPort) (ib.MAD, rdma.MADAddr) {
	r.Helper()
	b := make([]byte, rdma.MADBufferSize)
	n, from, err := p.Receive(r.context(), b)
	r.must(err)
	if n != ib.MADSize {
		r.Fatalf("received %d bytes", n)
	}
	return b[:n], from
}

// answerMAD receives a request and sends it back as a response.
func (r *rig) answerMAD(p rdma.MADPort) ib.MAD {
	r.Helper()
	m, from := r.receiveMAD(p)
	m.SetMethod(ib.MethodGetResp)
	r.must(p.Send(from, m))
	return m
}

func madAnswerComesBack(r *rig) {
	agent, asker := r.openMAD(r.B, madClass, madMethods), r.openMAD(r.A, madClass, nil)
	for seed := range uint32(3) {
		sent := madRequest(madClass, seed)
		r.must(asker.Send(r.madAddr(), sent))
		seen := r.answerMAD(agent)
		got, _ := r.receiveMAD(asker)
		if string(got) != string(seen) {
			r.Errorf("answer %x became %x", []byte(seen), []byte(got))
		}
		sent[3] = byte(ib.MethodGetResp)
		copy(sent[8:12], got[8:12])
		if string(got) != string(sent) {
			r.Errorf("request %x came as %x", sent, []byte(got))
		}
	}
}

func madCarriesItsSender(r *rig) {
	agent, asker := r.openMAD(r.B, madClass, madMethods), r.openMAD(r.A, madClass, nil)
	r.must(asker.Send(r.madAddr(), madRequest(madClass, 1)))
	_, from := r.receiveMAD(agent)
	ports, err := r.B.Ports()
	r.must(err)
	if from.QPN != ib.QPGeneralServices || !from.HasGRH || from.GRH.GID != gidOf(r.MADAddrA) {
		r.Errorf("from %+v, want %v", from, r.MADAddrA)
	}
	if i := int(from.GRH.GIDIndex); i >= len(ports[0].GIDs) || ports[0].GIDs[i] != gidOf(r.MADAddrB) {
		r.Errorf("addressed to GID %d of %v, want %v", i, ports[0].GIDs, r.MADAddrB)
	}
}

func madAskersAreApart(r *rig) {
	agent := r.openMAD(r.B, madClass, madMethods)
	one, two := r.openMAD(r.A, madClass, nil), r.openMAD(r.A, madClass, nil)
	r.must(one.Send(r.madAddr(), madRequest(madClass, 1)))
	r.must(two.Send(r.madAddr(), madRequest(madClass, 1)))
	if a, b := r.answerMAD(agent), r.answerMAD(agent); a.TID() == b.TID() {
		r.Fatalf("two askers have the transaction id %x", a.TID())
	}
	a, _ := r.receiveMAD(one)
	b, _ := r.receiveMAD(two)
	if a.TID() == b.TID() {
		r.Error("two askers got one answer")
	}
	// Each asker's next datagram is its own next answer: nothing else came.
	r.must(two.Send(r.madAddr(), madRequest(madClass, 2)))
	r.answerMAD(agent)
	if c, _ := r.receiveMAD(two); uint32(c.TID()) != 2 || c.TID()>>32 != b.TID()>>32 {
		r.Errorf("transaction id %x after %x", c.TID(), b.TID())
	}
}

func madClassesAreApart(r *rig) {
	const other = madClass + 1
	agent, second := r.openMAD(r.B, madClass, madMethods), r.openMAD(r.B, other, madMethods)
	asker, curious := r.openMAD(r.A, madClass, nil), r.openMAD(r.A, other, nil)
	r.must(curious.Send(r.madAddr(), madRequest(other, 1)))
	r.must(asker.Send(r.madAddr(), madRequest(madClass, 2)))
	if m := r.answerMAD(agent); m.Class() != madClass {
		r.Errorf("a datagram of class %02x", uint8(m.Class()))
	}
	if m := r.answerMAD(second); m.Class() != other {
		r.Errorf("a datagram of class %02x", uint8(m.Class()))
	}
	if m, _ := r.receiveMAD(curious); m.Class() != other {
		r.Errorf("an answer of class %02x", uint8(m.Class()))
	}
}

func madClassIsTakenOnce(r *rig) {
	r.openMAD(r.B, madClass, madMethods)
	m := r.B.(rdma.MADDevice)
	for _, methods := range [][]ib.Method{madMethods, {ib.MethodSet}} {
		if p, err := m.OpenMAD(1, rdma.MADConfig{Class: madClass, Version: 1, Methods: methods}); !errors.Is(err, rdma.ErrInUse) {
			if err == nil {
				p.Close()
			}
			r.Errorf("methods %v given twice: %v, want ErrInUse", methods, err)
		}
	}
}

func madClassIsFreeAfterClose(r *rig) {
	r.must(r.openMAD(r.B, madClass, madMethods).Close())
	agent, asker := r.openMAD(r.B, madClass, madMethods), r.openMAD(r.A, madClass, nil)
	r.must(asker.Send(r.madAddr(), madRequest(madClass, 1)))
	r.answerMAD(agent)
	r.receiveMAD(asker)
}

// endsReceive checks that end wakes a reader, and that the port is of no use after it.
func (r *rig) endsReceive(p rdma.MADPort, end func() error) {
	r.Helper()
	woken := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		_, _, err := p.Receive(context.Background(), make([]byte, rdma.MADBufferSize))
		woken <- err
	}()
	<-started
	r.must(end())
	if err := <-woken; !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("Receive: %v, want ErrClosed", err)
	}
	if _, _, err := p.Receive(r.context(), make([]byte, rdma.MADBufferSize)); !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("Receive after Close: %v, want ErrClosed", err)
	}
	to := rdma.MADAddr{QPN: ib.QPGeneralServices, HasGRH: true, GRH: rdma.MADRoute{GID: gidOf(r.MADAddrB), HopLimit: 64}}
	if err := p.Send(to, madRequest(madClass, 1)); !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("Send after Close: %v, want ErrClosed", err)
	}
	r.must(p.Close())
}

func madCloseEndsReceive(r *rig) {
	p := r.openMAD(r.B, madClass, madMethods)
	r.endsReceive(p, p.Close)
}

func madDeviceCloseEndsReceive(r *rig) {
	p := r.openMAD(r.B, madClass, madMethods)
	r.la.Close()
	r.lb.Close()
	r.endsReceive(p, r.B.Close)
	if _, err := r.B.(rdma.MADDevice).OpenMAD(1, rdma.MADConfig{Class: madClass, Version: 1}); !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("OpenMAD of a closed device: %v, want ErrClosed", err)
	}
}

func madContextEndsReceive(r *rig) {
	p := r.openMAD(r.B, madClass, madMethods)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := p.Receive(ctx, make([]byte, rdma.MADBufferSize)); !errors.Is(err, context.Canceled) {
		r.Errorf("Receive: %v, want that the context was cancelled", err)
	}
}

func madBadArguments(r *rig) {
	p := r.openMAD(r.A, madClass, nil)
	m := r.A.(rdma.MADDevice)
	for _, port := range []int{0, -1, 256} {
		if _, err := m.OpenMAD(port, rdma.MADConfig{Class: madClass, Version: 1}); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("port %d: %v, want ErrInvalid", port, err)
		}
	}
	if _, _, err := p.Receive(r.context(), make([]byte, rdma.MADBufferSize-1)); !errors.Is(err, rdma.ErrInvalid) {
		r.Errorf("Receive with too little room: %v, want ErrInvalid", err)
	}
	good := madRequest(madClass, 1)
	for _, b := range [][]byte{nil, good[:ib.MADSize-1], append(good[:ib.MADSize:ib.MADSize], 0)} {
		if err := p.Send(r.madAddr(), b); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("Send of %d bytes: %v, want ErrInvalid", len(b), err)
		}
	}
	nowhere := r.madAddr()
	nowhere.HasGRH = false
	if err := p.Send(nowhere, good); !errors.Is(err, rdma.ErrInvalid) {
		r.Errorf("Send to no address: %v, want ErrInvalid", err)
	}
}

// madLateReader sends far more than an agent keeps. The first of them is there, and the agent answers again once it reads.
func madLateReader(r *rig) {
	agent, asker := r.openMAD(r.B, madClass, madMethods), r.openMAD(r.A, madClass, nil)
	sent := uint32(r.Datagrams)
	to := r.madAddr()
	for i := range sent {
		r.must(asker.Send(to, madRequest(madClass, i)))
	}
	if m, _ := r.receiveMAD(agent); binary.BigEndian.Uint32(m[20:]) != 0 {
		r.Errorf("the oldest datagram is number %d", binary.BigEndian.Uint32(m[20:]))
	}
	kept := uint32(1)
	for {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, _, err := agent.Receive(ctx, make([]byte, rdma.MADBufferSize)); err != nil {
			break
		}
		kept++
	}
	if kept >= sent {
		r.Errorf("%d datagrams were kept for a reader that did not read", kept)
	}
	// What still lies in the network may leave no room for the next one.
	for last := uint32(0); last != sent; {
		r.must(asker.Send(to, madRequest(madClass, sent)))
		last = r.answerMAD(agent).AttrMod()
	}
}
