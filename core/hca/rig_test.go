package hca

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// user is a User that writes down what it is told.
type user struct {
	mu     sync.Mutex
	refuse map[string]error
	said   []string
	hold   chan struct{} // Attach waits for it
}

func (u *user) say(s string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.said = append(u.said, s)
}

func (u *user) Attach(ctx context.Context, d rdma.Device) error {
	if u.hold != nil {
		select {
		case <-u.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.refuse[d.Name()]; err != nil {
		u.said = append(u.said, "refuse "+d.Name())
		return err
	}
	u.said = append(u.said, "attach "+d.Name())
	return nil
}

func (u *user) Changed(_ context.Context, d rdma.Device, p rdma.Port) {
	u.say("changed " + d.Name() + " " + p.State.String())
}

func (u *user) Detach(d rdma.Device, _ string) { u.say("detach " + d.Name()) }

func (u *user) heard(s string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Contains(u.said, s)
}

func (u *user) count(s string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, x := range u.said {
		if x == s {
			n++
		}
	}
	return n
}

// until waits for something to become true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

var controller = mad.Controller{GUID: 7, Protocol: mad.SRP, SendDepth: 64, SendSize: 8260, Operations: mad.SRPOperations, ID: "twin",
	Services: []mad.Service{mad.SRPService(7, 9)}}

func newAgent(t *testing.T) *mad.Agent {
	t.Helper()
	a, err := mad.New(mad.Config{}, []mad.Controller{controller})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// start makes a table that is closed with the test.
func start(t *testing.T, cfg Config) *Table {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Retry == 0 {
		cfg.Retry = 5 * time.Millisecond
	}
	table := New(cfg)
	t.Cleanup(table.Close)
	if err := table.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return table
}

// subnet is a provider with one InfiniBand port, LID 3 of subnet manager 1.
func subnet(t *testing.T) (*rdmatest.Provider, *rdmatest.Device) {
	leaktest.Check(t)
	p := rdmatest.NewProvider(rdmatest.NewFabric(), "memory", portConfig("a", "fe80::3", 3))
	t.Cleanup(func() { p.Close() })
	return p, p.Device("a")
}

func portConfig(name, addr string, lid ib.LID) rdmatest.DeviceConfig {
	return rdmatest.DeviceConfig{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, LID: lid, SMLID: 1}
}

// portOf is a port as the table has it; the zero PortStatus if it has none.
func (t *Table) portOf(name string, num int) PortStatus {
	for _, h := range t.HCAs() {
		for _, p := range h.Ports {
			if h.Name == name && p.Num == num {
				return p
			}
		}
	}
	return PortStatus{}
}

// action is what was done about the last event of a kind, "" if nothing yet.
func (t *Table) action(k rdma.AsyncKind) string {
	list := t.Events(0)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Event.Kind == k {
			return list[i].Action
		}
	}
	return ""
}

// twoPorts is a device without a fabric, whose calls may hang.
type twoPorts struct {
	rdma.Device // nil: nothing else is called
	name        string
	mu          sync.Mutex
	ports       [2]rdma.Port
	fail        error
	hang        chan struct{}
	closed      bool
}

func newTwoPorts(name string) *twoPorts {
	d := &twoPorts{name: name}
	for i := range d.ports {
		d.ports[i] = rdma.Port{Num: i + 1, State: ib.PortActive, Active: true, LID: ib.LID(i + 10), SMLID: 1, MTU: 4096}
	}
	return d
}

func (d *twoPorts) Name() string             { return d.name }
func (d *twoPorts) Attr() rdma.DeviceAttr    { return rdma.DeviceAttr{NodeGUID: 1} }
func (d *twoPorts) Stats() map[string]uint64 { return nil }

func (d *twoPorts) Ports() ([]rdma.Port, error) {
	d.mu.Lock()
	hang, fail, ports := d.hang, d.fail, d.ports
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return ports[:], fail
}

func (d *twoPorts) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *twoPorts) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// fixed is a provider of devices that tells of nothing.
type fixed struct {
	mu   sync.Mutex
	list []rdma.Device
	err  error
}

func (f *fixed) Name() string { return "fixed" }
func (f *fixed) Close() error { return nil }
func (f *fixed) Devices(context.Context) ([]rdma.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list), f.err
}

func (f *fixed) set(list ...rdma.Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

var errNot = errors.New("not now")

// watched is a log whose lines can be looked for.
type watched struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) has(s string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.b.String(), s)
}
