package rdma

import (
	"context"
	"fmt"
)

// Watcher is a Provider that tells what happens to its devices and their ports. One that is none has devices that stay as they
// are. Events of connections come as completions, not here.
type Watcher interface {
	Provider
	// Watch begins to keep asynchronous events. What was there before is not told: look after Watch, then follow.
	Watch() (Watch, error)
}

// Watch is a stream of asynchronous events. Next may be called by one goroutine at a time, Close from any.
type Watch interface {
	// Next waits for the next event. An event that equals one that has not been fetched yet is not kept a second time, so their
	// number is bounded; those of one device come in the order in which they happened first. It returns ErrClosed after Close, of this or of
	// the provider, and ctx.Err if ctx ends first.
	Next(ctx context.Context) (AsyncEvent, error)
	Close() error
}

// AsyncEvent says what happened. It carries no values: they are to be read anew (Device.Ports), for they may have changed again.
type AsyncEvent struct {
	Kind AsyncKind
	// Device is the device's name.
	Device string
	// Port counts from 1; 0 for events of the whole device.
	Port int
}

// String is the event in the operator's words.
func (e AsyncEvent) String() string {
	if e.Port == 0 {
		return fmt.Sprintf("%s: %s", e.Device, e.Kind)
	}
	return fmt.Sprintf("%s port %d: %s", e.Device, e.Port, e.Kind)
}

// AsyncKind is a kind of asynchronous event (IBTA vol 1, 11.6.3).
type AsyncKind uint8

// The kinds.
const (
	// AsyncDeviceAdded: Provider.Devices lists a device that it did not.
	AsyncDeviceAdded AsyncKind = iota + 1
	// AsyncDeviceRemoved: the device is gone, or on its way. Everything on it has ended or will; it has still to be closed.
	AsyncDeviceRemoved
	// AsyncDeviceFatal: the device has failed and is of no use until it is closed and opened again.
	AsyncDeviceFatal
	// AsyncPortActive: the link came up.
	AsyncPortActive
	// AsyncPortError: the link went down.
	AsyncPortError
	// AsyncLIDChange, AsyncPKeyChange, AsyncSMChange, AsyncClientReregister: what a subnet manager does to a port.
	AsyncLIDChange
	AsyncPKeyChange
	AsyncSMChange
	AsyncClientReregister
	// AsyncGIDChange: the GID table has changed; on Ethernet, an address came or went.
	AsyncGIDChange
	// AsyncPortChange: something else about the port has, such as its MTU.
	AsyncPortChange
	// AsyncUnknown: something that the provider has no word for.
	AsyncUnknown
)

// String names the kind.
func (k AsyncKind) String() string {
	names := [...]string{"", "device added", "device removed", "device failed", "port active", "port error", "LID change", "P_Key change",
		"SM change", "client reregister", "GID change", "port change", "unknown event"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k]
}
