package rdma

import (
	"errors"
	"fmt"
)

// Sentinels that a provider's errors wrap.
var (
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
	// ErrFull: the queue holds as much work as it was made for; retry after a completion.
	ErrFull = errors.New("queue full")
	// ErrInUse: somebody else holds the service or port.
	ErrInUse = errors.New("in use")
	// ErrGone: the peer has given up the request.
	ErrGone = errors.New("request no longer wanted by the peer")
	// ErrInvalid: the arguments break the contract, as an SGE outside its region.
	ErrInvalid = errors.New("invalid argument")
	// ErrState: the QP is in no state for the call.
	ErrState = errors.New("wrong state")
	// ErrLost: the port cannot carry the connection any more: its address is gone, or its MTU has become too small.
	ErrLost = errors.New("the port does not carry the connection any more")
	// ErrBroken: the device has given up the queue; another one may do.
	ErrBroken = errors.New("the device has given up the queue")
	// ErrUnsupported: the device cannot do it.
	ErrUnsupported = errors.New("not supported")
)

// Error is what the methods of this package's interfaces return.
type Error struct {
	// Op is the failed operation, such as "listen".
	Op string
	// Peer names the device, address or connection concerned; may be empty.
	Peer string
	// Err is the cause. It wraps one of the sentinels where one fits.
	Err error
}

// Error tells the operation, the peer and the cause.
func (e *Error) Error() string {
	if e.Peer == "" {
		return fmt.Sprintf("rdma: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("rdma: %s %s: %v", e.Op, e.Peer, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// TakenError tells who has what is in use. It wraps ErrInUse.
type TakenError struct {
	// Owner is who has it, such as "the kernel's SRP target (module ib_srpt)".
	Owner string
	// Mend is what the operator can do about that.
	Mend string
}

// Error tells the owner and the mend.
func (e *TakenError) Error() string { return fmt.Sprintf("%v by %s: %s", ErrInUse, e.Owner, e.Mend) }

// Unwrap returns ErrInUse.
func (e *TakenError) Unwrap() error { return ErrInUse }

// String names the status for logs.
func (s Status) String() string {
	names := [...]string{"ok", "flushed", "local length error", "local protection error",
		"remote invalid request", "remote access error", "remote operation error",
		"retries exceeded", "RNR retries exceeded"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}
