//go:build verbs

package verbs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/hca"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs/ibsimtest"
)

func TestProcessOfANode(t *testing.T) {
	ibsimtest.Play(t, map[string]ibsimtest.Role{"agent": agentRole, "asker": askerRole, "list": listRole})
}

// controllers are what the agent answers for. There are no more services because the simulation loses the last 24 bytes of each datagram,
// where a fourth entry would be.
var controllers = []mad.Controller{
	{GUID: 7, Protocol: mad.SRP, SendDepth: 64, SendSize: 8260, Operations: mad.SRPOperations, ID: "one",
		Services: []mad.Service{mad.SRPService(7, 9)}},
	{GUID: 8, Protocol: mad.SRP, SendDepth: 32, SendSize: 4148, Operations: mad.SRPOperations, ID: "two",
		Services: []mad.Service{mad.SRPService(1, 9), mad.SRPService(2, 9), mad.SRPService(3, 9)}},
}

// node is what the agent's process says of itself.
type node struct {
	State           ib.PortState
	LID, SMLID      ib.LID
	GUID            ib.GUID
	Reads           uint64
	Answered        uint64
	Failed, Dropped uint64
	Discovery       bool
	Registrations   int32
	Goroutines      int
	Descriptors     int
	Events          []string
}

// agentRole keeps a table of HCAs, with the adapter of the simulation. Its input: "state"; "event" and a kind, as if the adapter had told of it;
// "manager" and a LID, to ask a subnet manager there how it is.
func agentRole(ctx context.Context, in *bufio.Scanner) error {
	dev, err := newSimAdapter()
	if err != nil {
		return err
	}
	agent, err := mad.New(mad.Config{}, controllers)
	if err != nil {
		return err
	}
	table := hca.New(hca.Config{Provider: &simProvider{dev: dev}, Agent: agent, Retry: time.Hour, Log: hclog.Default()})
	if err := table.Start(ctx); err != nil {
		return err
	}
	defer table.Close()
	for in.Scan() {
		what, arg, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.ParseUint("0"+arg, 10, 16)
		switch {
		case err != nil:
			return err
		case what == "event":
			table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncKind(n), Device: dev.name, Port: 1})
		case what == "manager":
			if err := dev.askManager(ib.LID(n)); err != nil {
				return err
			}
		}
		if err := ibsimtest.Reply(stateOf(table, dev)); err != nil {
			return err
		}
	}
	return nil
}

func stateOf(table *hca.Table, dev *simAdapter) node {
	n := node{Registrations: dev.registrations.Load(), Goroutines: runtime.NumGoroutine()}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		n.Descriptors = len(open)
	}
	for _, e := range table.Events(0) {
		n.Events = append(n.Events, e.Event.Kind.String()+": "+e.Action)
	}
	if list := table.HCAs(); len(list) == 1 && len(list[0].Ports) == 1 {
		p := list[0].Ports[0]
		n.State, n.LID, n.SMLID, n.GUID = p.State, p.LID, p.SMLID, p.GUID
		n.Reads, n.Answered, n.Failed, n.Dropped, n.Discovery = p.Reads, p.Answered, p.Failed, p.Dropped, p.Discovery
	}
	return n
}

// listRole says what a process that has just started finds.
func listRole(context.Context, *bufio.Scanner) error {
	list, err := UMADAdapters()
	if err != nil {
		return err
	}
	return ibsimtest.Reply(list)
}

// askerRole asks other nodes. Its input: "discover", "refusals" or "thousand", and a LID. The answer is "", or what was wrong.
func askerRole(ctx context.Context, in *bufio.Scanner) error {
	list, err := UMADAdapters()
	if err != nil || len(list) != 1 {
		return fmt.Errorf("adapters %v: %w", list, err)
	}
	p, err := OpenUMAD(list[0].Name, 1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1})
	if err != nil {
		return err
	}
	defer p.Close()
	for in.Scan() {
		what, lid, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.ParseUint(lid, 10, 16)
		if err != nil {
			return err
		}
		a := &asker{port: p, to: rdma.MADAddr{LID: ib.LID(n), QPN: ib.QPGeneralServices}}
		err = map[string]func(context.Context) error{"discover": a.discovers, "refusals": a.isRefused,
			"thousand": a.isAnsweredOften}[what](ctx)
		if err := ibsimtest.Reply(fmt.Sprint(errors.Join(err))); err != nil {
			return err
		}
	}
	return nil
}

// asker asks one port.
type asker struct {
	port rdma.MADPort
	to   rdma.MADAddr
	tid  atomic.Uint32
}

// answerBound is in what time a query has to be answered after a subnet has changed, however often it is asked.
const answerBound = 10 * time.Second

// exchange asks until there is an answer.
func (a *asker) exchange(ctx context.Context, request func(tid uint32) []byte, take func(b []byte, tid uint32) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	b := make([]byte, rdma.MADBufferSize)
	for {
		tid := a.tid.Add(1)
		if err := a.port.Send(a.to, request(tid)); err != nil {
			return err
		}
		attempt, done := context.WithTimeout(ctx, time.Second)
		n, _, err := a.port.Receive(attempt, b)
		done()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no answer of LID %d within %v", a.to.LID, answerBound)
		case err != nil:
			continue
		}
		if err := take(b[:n], tid); !errors.Is(err, mad.ErrMismatch) {
			return err
		}
	}
}

// get asks for an attribute.
func (a *asker) get(ctx context.Context, q mad.Query) (data []byte, err error) {
	err = a.exchange(ctx, func(tid uint32) []byte { return q.Append(nil, tid) }, func(b []byte, tid uint32) (err error) {
		data, err = q.Parse(b, tid)
		return err
	})
	return data, err
}

func (a *asker) isAnsweredOften(ctx context.Context) error {
	for range 1000 {
		if _, err := a.get(ctx, mad.GetIOUnitInfo()); err != nil {
			return err
		}
	}
	return nil
}

// discovers asks for all that there is, and compares.
func (a *asker) discovers(ctx context.Context) error {
	info, err := a.get(ctx, mad.GetClassPortInfo())
	if err != nil || info[0] != ib.MADBaseVersion || info[1] != mad.ClassVersion {
		return fmt.Errorf("ClassPortInfo %x: %w", info, err)
	}
	var d mad.Discovery
	for q, more := d.Next(); more; q, more = d.Next() {
		d.Answer(a.get(ctx, q))
	}
	unit, err := d.Result()
	if err != nil {
		return err
	}
	for i, f := range unit.Found {
		if f.Err != nil || i >= len(controllers) || !reflect.DeepEqual(f.Controller, controllers[i]) {
			return fmt.Errorf("slot %d has %+v, %v", f.Slot, f.Controller, f.Err)
		}
	}
	if len(unit.Found) != len(controllers) {
		return fmt.Errorf("found %d controllers of %d", len(unit.Found), len(controllers))
	}
	return nil
}

// isRefused asks what an agent refuses.
func (a *asker) isRefused(ctx context.Context) error {
	for _, c := range []struct {
		method ib.Method
		attr   uint16
		mod    uint32
		want   ib.Status
	}{
		{ib.MethodSet, mad.AttrClassPortInfo, 0, 0x000C}, {ib.MethodGet, 0x0099, 0, 0x000C}, {ib.MethodSend, mad.AttrIOUnitInfo, 0, 0x0008},
		{ib.MethodGet, mad.AttrIOControllerProfile, 0, 0x001C}, {ib.MethodGet, mad.AttrIOControllerProfile, 17, 0x001C},
		{ib.MethodGet, mad.AttrIOControllerProfile, 3, 0x0100}, {ib.MethodGet, mad.AttrServiceEntries, 1<<16 | 1<<8, 0x001C},
	} {
		request := func(tid uint32) []byte {
			h := ib.MADHeader{BaseVersion: 1, Class: ib.ClassDeviceMgmt, ClassVersion: 1, Method: c.method, TID: uint64(tid), AttrID: c.attr, AttrMod: c.mod}
			return append(h.Append(nil), make([]byte, ib.MADSize-ib.MADHeaderSize)...)
		}
		err := a.exchange(ctx, request, func(b []byte, tid uint32) error {
			m, err := ib.ParseMAD(b)
			switch {
			case err != nil:
				return err
			case uint32(m.TID()) != tid:
				return mad.ErrMismatch
			case m.Status() != c.want || m.AttrID() != c.attr || m.AttrMod() != c.mod || m.Method() != ib.MethodGetResp:
				return fmt.Errorf("%v of attribute %04x modifier %08x: status %04x, want %04x", c.method, c.attr, c.mod, m.Status(), c.want)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
