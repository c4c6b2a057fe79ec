package initiator

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Sentinels that the package's errors wrap.
var (
	// ErrClosed: the session was closed, or logged out, by its user.
	ErrClosed = errors.New("session closed")
	// ErrRejected: the target refused the login; see RejectError.
	ErrRejected = errors.New("login rejected")
	// ErrUnreachable: no connection to the target came about.
	ErrUnreachable = errors.New("no answer from the target")
	// ErrDisconnected: the connection ended; see LogoutError for when the target said why.
	ErrDisconnected = errors.New("connection lost")
	// ErrProtocol: the target sent what no target may send.
	ErrProtocol = errors.New("protocol violation by the target")
	// ErrAborted: task management ended the command.
	ErrAborted = errors.New("command aborted")
	// ErrInvalid: the command or configuration cannot be carried out as it is.
	ErrInvalid = errors.New("invalid argument")
	// ErrBusy: the command has been submitted already and is not done.
	ErrBusy = errors.New("command in use")
)

// Error is what the functions of this package return.
type Error struct {
	// Op is what failed, such as "login".
	Op string
	// Target is the address of the target.
	Target string
	// Err is the cause. It wraps one of the sentinels, or is the end of a context.
	Err error
}

// Error tells the operation, the target and the cause.
func (e *Error) Error() string { return fmt.Sprintf("srp: %s %s: %v", e.Op, e.Target, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RejectError is a refused login. It is an ErrRejected.
type RejectError struct {
	// CM is the reason of the connection manager.
	CM rdma.RejectReason
	// Login is the reason of the SRP_LOGIN_REJ; 0 if the refusal carried none.
	Login srp.RejReason
}

// Error tells the reason.
func (e *RejectError) Error() string {
	if e.Login != 0 {
		return fmt.Sprintf("%v: %v", ErrRejected, e.Login)
	}
	return fmt.Sprintf("%v by the connection manager, reason %d", ErrRejected, e.CM)
}

// Unwrap returns ErrRejected.
func (e *RejectError) Unwrap() error { return ErrRejected }

// LogoutError is the end of a session by the target's SRP_T_LOGOUT. It is an ErrDisconnected.
type LogoutError struct{ Reason srp.LogoutReason }

// Error tells the reason.
func (e *LogoutError) Error() string { return fmt.Sprintf("logged out by the target: %v", e.Reason) }

// Unwrap returns ErrDisconnected.
func (e *LogoutError) Unwrap() error { return ErrDisconnected }

// StatusError is a command that did not end with status GOOD.
type StatusError struct {
	// Status is the SCSI status (SAM-5 5.3).
	Status byte
	// Sense is the sense data, nil if there was none.
	Sense []byte
}

// Error tells the status and what the sense data says.
func (e *StatusError) Error() string {
	key, asc, ascq, ok := senseOf(e.Sense)
	if !ok {
		return fmt.Sprintf("SCSI status %02xh", e.Status)
	}
	return fmt.Sprintf("SCSI status %02xh, sense %x/%02x/%02x", e.Status, key, asc, ascq)
}

// Code returns the sense key, additional sense code and qualifier, zero without sense data.
func (e *StatusError) Code() (key, asc, ascq byte) {
	key, asc, ascq, _ = senseOf(e.Sense)
	return key, asc, ascq
}

// TaskError is a task management function that the target did not carry out.
type TaskError struct {
	Function srp.TaskFunction
	Code     srp.RspCode
	// NoCode tells that the response had no response code, which the target owes.
	NoCode bool
}

// Error tells the function and the code.
func (e *TaskError) Error() string {
	if e.NoCode {
		return fmt.Sprintf("%v: answered without a response code", e.Function)
	}
	return fmt.Sprintf("%v: response code %02xh", e.Function, uint8(e.Code))
}

// violation makes an ErrProtocol that tells what was violated.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}
