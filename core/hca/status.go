package hca

import (
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// HCA is a device of the table as an operator sees it.
type HCA struct {
	Name string
	Attr rdma.DeviceAttr
	// Serving tells that the user serves it. If not, Problem says why.
	Serving bool
	Problem string
	Ports   []PortStatus
	// Counters are the device's.
	Counters map[string]uint64
}

// PortStatus is a port as an operator sees it.
type PortStatus struct {
	// Port is what was last read.
	rdma.Port
	// Since is when it last changed, Reads how often it was read.
	Since time.Time
	Reads uint64
	// Problem says why it could not be read the last time.
	Problem string
	// Discovery tells that Device Management requests are answered here. If not, DiscoveryProblem says why.
	Discovery        bool
	DiscoveryProblem string
	// Answered counts requests that were, Dropped those that were not to be, Failed answers that could not be sent.
	Answered, Dropped, Failed uint64
}

// HCAs lists the devices, in the order in which they came.
func (t *Table) HCAs() []HCA {
	var out []HCA
	for _, d := range t.list() {
		out = append(out, d.status())
	}
	return out
}

// Ignored is how many events nothing could be done about.
func (t *Table) Ignored() uint64 { return t.unknown.Load() }

func (d *device) status() HCA {
	d.mu.Lock()
	h := HCA{Name: d.dev.Name(), Attr: d.dev.Attr(), Serving: d.attached, Problem: d.problem}
	ports := d.ports
	d.mu.Unlock()
	h.Counters = d.dev.Stats()
	for _, p := range ports {
		h.Ports = append(h.Ports, p.status())
	}
	return h
}

func (p *port) status() PortStatus {
	p.mu.Lock()
	s := PortStatus{Port: p.cache, Since: p.since, Reads: p.reads, Problem: p.failed}
	p.mu.Unlock()
	a := &p.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Discovery, s.DiscoveryProblem = a.reg != nil, a.problem
	if a.none {
		s.DiscoveryProblem = "the device takes no management datagrams"
	}
	s.Answered, s.Dropped, s.Failed = a.answered.Load(), a.dropped.Load(), a.failed.Load()
	return s
}
