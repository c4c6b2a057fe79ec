package ioctx

import (
	"errors"
	"fmt"
	"time"
)

const (
	page     = 4096
	maxArena = 1 << 40
	maxMove  = 16 << 20
)

// Validate returns an error that names every number that is out of its range, or nil. The SDK and the host call it.
func (p Plan) Validate() error {
	var errs []error
	between := func(name string, v, low, high uint64) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("ioctx: %s is %d; %d to %d can be", name, v, low, high))
		}
	}
	between("credits", whole(p.Credits), 2, 4096)
	between("unsolicited", whole(p.Unsolicited), 1, 64)
	if p.SharedReceives != 0 {
		between("shared_receives", whole(p.SharedReceives), max(16, whole(p.Unsolicited)+2), 65536)
	}
	between("responses", whole(p.Responses), whole(p.Credits), 8192)
	between("send_work", whole(p.SendWork), 16, 32768)
	between("max_request_iu", uint64(p.MaxRequestIU), 64, 1<<20)
	between("max_response_iu", uint64(p.MaxResponseIU), 64, 4096)
	between("max_immediate_offset", uint64(p.MaxImmediateOffset), 0, 4096)
	between("max_transfer", p.MaxTransfer, page, maxMove)
	between("arena_size", p.ArenaSize, p.MaxTransfer, maxArena)
	if p.ArenaSize%page != 0 {
		errs = append(errs, fmt.Errorf("ioctx: arena_size is %d, not a multiple of %d", p.ArenaSize, page))
	}
	if p.MaxWait <= 0 || p.MaxWait > time.Minute {
		errs = append(errs, fmt.Errorf("ioctx: max_wait is %v; more than 0 and at most 1m can be", p.MaxWait))
	}
	return errors.Join(errs...)
}

// whole is n, or 0, which no range but that of an offset has, if n is negative.
func whole(n int) uint64 { return uint64(max(n, 0)) }
