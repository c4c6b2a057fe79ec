package auth

import (
	"errors"
	"fmt"
)

// Code says why there is no decision. The list is closed; a host treats a code that it does not know as CodeInternal.
type Code uint16

// The codes.
const (
	// CodeOK: there is one.
	CodeOK Code = 0
	// CodeInternal: the authoriser failed.
	CodeInternal Code = 1
	// CodeUnavailable: what it depends on cannot be reached now; the initiator may try again.
	CodeUnavailable Code = 2
	// CodeConfig: the configuration cannot be used. The operator has to mend it.
	CodeConfig Code = 3
	// CodeAborted: given up because of a deadline, a cancellation or the end of the process.
	CodeAborted Code = 4
	// CodeInvalid: the question breaks the contract. The host counts it as a fault of its own.
	CodeInvalid Code = 5
)

// String names the code.
func (c Code) String() string {
	names := [...]string{"ok", "internal error", "unavailable", "wrong configuration", "aborted", "invalid"}
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
}

// Error tells the code and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return "auth: " + e.Code.String()
	}
	return fmt.Sprintf("auth: %s: %v", e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err: CodeOK for nil, that of the first Error in its chain, else CodeInternal.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
