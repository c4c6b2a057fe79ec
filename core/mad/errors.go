package mad

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Sentinels that the package's errors wrap.
var (
	// ErrTable: a table of controllers cannot be published as it is.
	ErrTable = errors.New("invalid table of I/O controllers")
	// ErrMismatch: a datagram is no answer to the query.
	ErrMismatch = errors.New("not the answer to the query")
	// ErrShort: bytes end before the attribute does.
	ErrShort = errors.New("too short")
)

// StatusError is an answer that refuses a query.
type StatusError struct {
	Query  Query
	Status ib.Status
}

// Error names the query and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("device management: %v: refused with status %04x, %s", e.Query, uint16(e.Status), StatusText(e.Status))
}

// StatusText says what a status of the class means (IBTA 13.4.7, 16.3).
func StatusText(s ib.Status) string {
	switch s {
	case ib.StatusOK:
		return "success"
	case ib.StatusBusy:
		return "the agent is busy"
	case ib.StatusRedirect:
		return "the class is served elsewhere"
	case ib.StatusBadVersion:
		return "version not supported"
	case ib.StatusBadMethod:
		return "method not supported"
	case ib.StatusBadMethodAttr:
		return "method/attribute combination not supported"
	case ib.StatusBadAttrValue:
		return "invalid attribute or modifier"
	case StatusNoIOC:
		return "no response from the I/O controller"
	case StatusNoServices:
		return "the I/O controller has no service entries"
	case StatusIOCFailure:
		return "the I/O controller has failed"
	}
	return "unknown"
}
