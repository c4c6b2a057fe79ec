//go:build verbs

package verbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
	"github.com/gosrpt/gosrpt/core/rdma/verbs/ibsimtest"
)

// simAdapter is the adapter of the simulation. Its datagrams are the product's; what it lacks is here: the simulation makes the kernel's
// tables once, when a process starts, and has no verbs device that would tell of events. So the port is asked for its PortInfo, as the
// adapter's driver does.
type simAdapter struct {
	rdma.Device // nil: nothing else is called
	name        string
	guid        ib.GUID
	port        ib.GUID

	registrations atomic.Int32
	tid           atomic.Uint32
	smps          map[ib.Class]rdma.MADPort

	mu      sync.Mutex
	waiting map[uint32]chan []byte
}

func newSimAdapter() (*simAdapter, error) {
	list, err := UMADAdapters()
	if err != nil || len(list) != 1 || len(list[0].Ports) != 1 {
		return nil, fmt.Errorf("adapters %+v: %w", list, err)
	}
	a := &simAdapter{name: list[0].Name, guid: list[0].NodeGUID, port: list[0].Ports[0].GUID, waiting: map[uint32]chan []byte{},
		smps: map[ib.Class]rdma.MADPort{}}
	for _, class := range []ib.Class{ib.ClassSubnLID, ib.ClassSubnDR} {
		p, err := OpenUMAD(a.name, 1, rdma.MADConfig{Class: class, Version: 1, Methods: []ib.Method{ib.MethodGet, ib.MethodSet}})
		if err != nil {
			return nil, err
		}
		a.smps[class] = p
		go a.serve(p)
	}
	return a, nil
}

// serve takes answers to query, and tells managers that there is none here.
func (a *simAdapter) serve(p rdma.MADPort) {
	b := make([]byte, rdma.MADBufferSize)
	for {
		n, from, err := p.Receive(context.Background(), b)
		switch {
		case err != nil:
			fmt.Println("no more subnet management:", err)
			return
		case n != ib.MADSize:
			continue
		}
		m := ib.MAD(slices.Clone(b[:n]))
		if m.Method().IsResponse() {
			a.arrived(m)
			continue
		}
		ibsimtest.NoManager(m, a.port)
		if err := p.Send(from, m); err != nil {
			fmt.Println("no answer to a manager:", err)
		}
	}
}

func (a *simAdapter) arrived(m ib.MAD) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.waiting[uint32(m.TID())]; c != nil {
		c <- m[64:128]
		delete(a.waiting, uint32(m.TID()))
	}
}

// query asks the port itself for an attribute, by a route of no hops.
func (a *simAdapter) query(attr uint16) ([]byte, error) {
	return a.get(ib.ClassSubnDR, ib.LIDPermissive, attr)
}

// askManager asks a subnet manager for its SMInfo.
func (a *simAdapter) askManager(lid ib.LID) error {
	_, err := a.get(ib.ClassSubnLID, lid, 0x20)
	return err
}

// get asks for an attribute of subnet management.
func (a *simAdapter) get(class ib.Class, to ib.LID, attr uint16) ([]byte, error) {
	tid := a.tid.Add(1)
	c := make(chan []byte, 1)
	a.mu.Lock()
	a.waiting[tid] = c
	a.mu.Unlock()
	h := ib.MADHeader{BaseVersion: 1, Class: class, ClassVersion: 1, Method: ib.MethodGet, TID: uint64(tid), AttrID: attr}
	m := append(h.Append(nil), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
	copy(m[32:], "\xFF\xFF\xFF\xFF") // the ends of a directed route
	if err := a.smps[class].Send(rdma.MADAddr{LID: to}, m); err != nil {
		return nil, err
	}
	select {
	case data := <-c:
		return data, nil
	case <-time.After(ibsimtest.Patience):
		return nil, fmt.Errorf("no answer of LID %d about attribute %04x", to, attr)
	}
}

func (a *simAdapter) Name() string             { return a.name }
func (a *simAdapter) Attr() rdma.DeviceAttr    { return rdma.DeviceAttr{NodeGUID: a.guid} }
func (a *simAdapter) Stats() map[string]uint64 { return nil }
func (a *simAdapter) Close() error             { return nil }

// Ports reads PortInfo and the P_Key table (IBTA vol 1, 14.2.5.6 and 14.2.5.7).
func (a *simAdapter) Ports() ([]rdma.Port, error) {
	info, err := a.query(0x15)
	if err != nil {
		return nil, err
	}
	keys, err := a.query(0x16)
	if err != nil {
		return nil, err
	}
	state := ib.PortState(info[32] & 15)
	p := rdma.Port{Num: 1, GUID: a.port, State: state, Active: state == ib.PortActive, Link: ib.LinkInfiniBand, LMC: info[34] & 7,
		LID: ib.LID(binary.BigEndian.Uint16(info[16:])), SMLID: ib.LID(binary.BigEndian.Uint16(info[18:])),
		GIDs: []ib.GID{ib.MakeGID(binary.BigEndian.Uint64(info[8:]), a.port)}}
	for i := 0; i < len(keys); i += 2 {
		p.PKeys = append(p.PKeys, ib.PKey(binary.BigEndian.Uint16(keys[i:])))
	}
	p.PKeys = trimTable(p.PKeys)
	return []rdma.Port{p}, nil
}

// OpenMAD is the product's; what is open is counted.
func (a *simAdapter) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	p, err := OpenUMAD(a.name, port, cfg)
	if err != nil {
		return nil, err
	}
	a.registrations.Add(1)
	return &countedPort{MADPort: p, open: &a.registrations}, nil
}

type countedPort struct {
	rdma.MADPort
	open *atomic.Int32
	once sync.Once
}

func (c *countedPort) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.MADPort.Close()
}

// simProvider has one adapter, and tells what an adapter's driver would tell of it.
type simProvider struct {
	dev *simAdapter
	hub async.Hub
}

func (*simProvider) Name() string { return "ibsim" }
func (*simProvider) Close() error { return nil }
func (s *simProvider) Devices(context.Context) ([]rdma.Device, error) {
	return []rdma.Device{s.dev}, nil
}

// Watch looks at the port again and again.
func (s *simProvider) Watch() (rdma.Watch, error) {
	first, err := s.dev.Ports()
	if err != nil {
		return nil, err
	}
	go s.follow(first[0])
	return s.hub.Watch()
}

func (s *simProvider) follow(old rdma.Port) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		list, err := s.dev.Ports()
		if err != nil {
			fmt.Println("the port cannot be read:", err)
			continue
		}
		now := list[0]
		for kind, happened := range map[rdma.AsyncKind]bool{
			rdma.AsyncPortActive: now.Active && !old.Active, rdma.AsyncPortError: !now.Active && old.Active,
			rdma.AsyncLIDChange: now.LID != old.LID, rdma.AsyncSMChange: now.SMLID != old.SMLID, rdma.AsyncPKeyChange: !slices.Equal(now.PKeys, old.PKeys),
		} {
			if happened {
				s.hub.Post(rdma.AsyncEvent{Kind: kind, Device: s.dev.name, Port: 1})
			}
		}
		old = now
	}
}
