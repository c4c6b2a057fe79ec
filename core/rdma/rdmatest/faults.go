package rdmatest

import (
	"fmt"
	"slices"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Traffic is a set of the kinds of things that travel.
type Traffic uint8

const (
	// Data is SENDs, WRITEs and READs. Held, nothing moves to or from the device, and no time
	// runs out.
	Data Traffic = 1 << iota
	// Requests is connection requests on their way to the device (REQ).
	Requests
	// Replies is acceptances and refusals on their way to the device (REP, REJ).
	Replies
	// Readies is what establishes a connection for the passive side (RTU).
	Readies
	// Ends is the news that the other end has gone (DREQ).
	Ends
	// Datagrams is management datagrams on their way to the device.
	Datagrams
	// AllTraffic is every kind.
	AllTraffic = Data | Requests | Replies | Readies | Ends | Datagrams
)

type parkedMessage struct {
	kind    Traffic
	deliver func()
}

type failure struct {
	after  int
	op     rdma.Op
	status rdma.Status
}

// Hold keeps the given kinds of traffic from arriving until Release.
func (d *Device) Hold(kinds Traffic) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.held |= kinds
	d.steps = 0
}

// Release delivers what Hold kept, in order, and lets further traffic of these kinds pass.
func (d *Device) Release(kinds Traffic) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.held &^= kinds
	d.steps = 0
	parked := d.parked
	d.parked = nil
	for _, m := range parked {
		if m.kind&d.held != 0 {
			d.parked = append(d.parked, m)
			continue
		}
		m.deliver()
	}
	d.fabric.resume()
}

// Step lets n pieces of work pass while Data is held. Those that find nothing to pass are kept
// for what comes.
func (d *Device) Step(n int) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.steps += n
	d.fabric.resume()
}

// stopped tells whether data is held and no step is left.
func (d *Device) stopped() bool { return d.held&Data != 0 && d.steps == 0 }

// FailAfter lets n pieces of work of the kind pass on the device, and ends the next one with
// status, which breaks its connection. For rdma.OpRecv the status is the receiver's. Several calls
// for one kind count one after the other.
func (d *Device) FailAfter(n int, op rdma.Op, status rdma.Status) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.failures = append(d.failures, failure{n, op, status})
}

// injected tells whether a piece of work shall fail, and how.
func (d *Device) injected(op rdma.Op) (rdma.Status, bool) {
	for i := range d.failures {
		f := &d.failures[i]
		if f.op != op {
			continue
		}
		if f.after > 0 {
			f.after--
			return rdma.StatusOK, false
		}
		status := f.status
		d.failures = slices.Delete(d.failures, i, i+1)
		return status, true
	}
	return rdma.StatusOK, false
}

// Break ends the connection of a queue pair of the device as a transport error would: on both
// ends the work is flushed and EventDisconnected follows. It returns false if there is no such
// connection.
func (d *Device) Break(qpn uint32) bool {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	for _, q := range d.qps {
		if q.num == qpn && q.state == connected {
			p := q.peer
			q.end(rdma.EventDisconnected, 0, nil)
			q.tell(p)
			return true
		}
	}
	return false
}

// BreakAll breaks every connection of the device and returns how many there were.
func (d *Device) BreakAll() int {
	n := 0
	for _, qpn := range d.qpns() {
		if d.Break(qpn) {
			n++
		}
	}
	return n
}

// BreakSRQs has the device give up its shared receive queues; connections that use them end as by Break.
func (d *Device) BreakSRQs() {
	var qpns []uint32
	d.fabric.mu.Lock()
	for _, c := range d.cqs {
		for _, s := range c.srqs {
			s.broken = true
			for _, q := range s.qps {
				qpns = append(qpns, q.num)
			}
		}
	}
	d.fabric.unlock()
	for _, n := range qpns {
		d.Break(n)
	}
}

func (d *Device) qpns() []uint32 {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	list := make([]uint32, len(d.qps))
	for i, q := range d.qps {
		list[i] = q.num
	}
	return list
}

// Vanish makes the device unreachable without a word, as a machine that lost its power: all that
// is sent to it or by it is lost, and work for it ends in StatusRetryExceeded.
func (d *Device) Vanish() {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.vanished = true
	d.fabric.resume()
}

// Link is the state of a device's port.
type Link bool

// The states of a port.
const (
	LinkDown Link = false
	LinkUp   Link = true
)

// SetLink sets the port's state. While it is down nothing passes, and connection messages are
// lost; work is tried again until RetryTimeout.
func (d *Device) SetLink(l Link) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	if d.linkUp != bool(l) {
		kind := rdma.AsyncPortError
		if l == LinkUp {
			kind = rdma.AsyncPortActive
		}
		d.Event(kind, 1)
	}
	d.linkUp = bool(l)
	d.fabric.resume()
}

// LimitSends makes PostSend of the device's queue pairs answer ErrFull once n pieces of work are
// outstanding; a negative n lifts the limit.
func (d *Device) LimitSends(n int) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.sendLimit = n
}

// Open returns what has not been closed on the device, for the operator of a test that looks for
// leaks: "2 queue pairs, 1 region"; or "" if nothing is open.
func (d *Device) Open() string {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	srqs := 0
	for _, c := range d.cqs {
		srqs += len(c.srqs)
	}
	if len(d.qps)+len(d.cqs)+len(d.listeners)+len(d.regions)+d.mads.Count() == 0 {
		return ""
	}
	return fmt.Sprintf("%d completion queues, %d shared receive queues, %d queue pairs, %d listeners, %d regions, %d datagram ports",
		len(d.cqs), srqs, len(d.qps), len(d.listeners), len(d.regions), d.mads.Count())
}
