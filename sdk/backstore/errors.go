package backstore

import (
	"errors"
	"fmt"
)

// Code says how a request ended. The list is closed; a host treats a code that it does not know as CodeIO.
type Code uint16

// The codes, and what an initiator is told.
const (
	// CodeOK: done.
	CodeOK Code = 0
	// CodeIO: the medium failed (MEDIUM ERROR).
	CodeIO Code = 1
	// CodeUnavailable: the store cannot be reached now; the initiator retries.
	CodeUnavailable Code = 2
	// CodeBusy: too much work at once; the initiator retries.
	CodeBusy Code = 3
	// CodeNoSpace: a thin store has no room left (DATA PROTECT, SPACE ALLOCATION FAILED).
	CodeNoSpace Code = 4
	// CodeReadOnly: the store refuses writes (DATA PROTECT, WRITE PROTECTED).
	CodeReadOnly Code = 5
	// CodeRange: outside the store (ILLEGAL REQUEST, LBA OUT OF RANGE).
	CodeRange Code = 6
	// CodeNotSupported: the store does not do this (ILLEGAL REQUEST).
	CodeNotSupported Code = 7
	// CodeAborted: given up because of a deadline, a cancellation or a restart; the initiator retries.
	CodeAborted Code = 8
	// CodeInvalid: the request breaks the contract. The host counts it as a fault of its own.
	CodeInvalid Code = 9
	// CodeMiscompare: the blocks are not what was expected (MISCOMPARE). Only of CompareAndWrite.
	CodeMiscompare Code = 10
)

// MaxCode is the last code.
const MaxCode = CodeMiscompare

// String names the code.
func (c Code) String() string {
	names := [...]string{"ok", "I/O error", "unavailable", "busy", "no space", "read only",
		"out of range", "not supported", "aborted", "invalid", "miscompare"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// Error is an error with a code.
type Error struct {
	Code Code
	// Err is the cause; may be nil.
	Err error
	// At is the offset in the compared data of the first byte that differs, for CodeMiscompare.
	At uint32
}

// Miscompare is the error of a CompareAndWrite that found another byte at offset at of what was expected.
func Miscompare(at int) error { return &Error{Code: CodeMiscompare, At: uint32(at)} }

// Error tells the code and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return "backstore: " + e.Code.String()
	}
	return fmt.Sprintf("backstore: %s: %v", e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err: CodeOK for nil, that of the first Error in its chain, else CodeIO.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeIO
}
