package sa

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

// Statuses of the class, beyond the common ones (IBTA vol 1, 15.2.3).
const (
	StatusNoResources      ib.Status = 0x0100
	StatusInvalid          ib.Status = 0x0200
	StatusNoRecords        ib.Status = 0x0300
	StatusTooManyRecords   ib.Status = 0x0400
	StatusInvalidGID       ib.Status = 0x0500
	StatusTooFewComponents ib.Status = 0x0600
	StatusDenied           ib.Status = 0x0700
)

// StatusError is an answer that refuses a query.
type StatusError struct {
	Query  PathQuery
	Status ib.Status
}

// Error names the query and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("subnet administration: %v: refused with status %04x, %s", e.Query, uint16(e.Status), StatusText(e.Status))
}

// StatusText says what a status of the class means.
func StatusText(s ib.Status) string {
	switch s {
	case StatusNoResources:
		return "the administrator has no resources"
	case StatusInvalid:
		return "the request is invalid"
	case StatusNoRecords:
		return "there is no such path"
	case StatusTooManyRecords:
		return "there are too many paths"
	case StatusInvalidGID:
		return "it knows no port of that GID"
	case StatusTooFewComponents:
		return "the request does not say enough"
	case StatusDenied:
		return "this port may not ask"
	}
	if s>>8 != 0 {
		return "unknown"
	}
	return mad.StatusText(s) // a common one
}
