//go:build verbs

package verbs

// #include "shim.h"
import "C"

import "errors"

// siw maps its queues into the process by keys that are places, given from the lowest that is free. Its library takes one of them, 0x90000,
// for that of a queue which could not be mapped (SIW_INVAL_UOBJ_KEY): when the mappings of a process come to it, no queue pair can be
// made any more. So the first queue of a device is one that nobody uses and that lies over the place.
const (
	siwVendor = 0x626d74
	siwKey    = 0x90000
	siwEntry  = 32 // bytes of a completion
)

// coverKey makes that queue, if the device is siw's.
func (d *Device) coverKey(vendor C.uint32_t) error {
	if !d.iwarp || vendor != siwVendor {
		return nil
	}
	if d.cover = C.ibv_create_cq(d.ctx, siwKey/siwEntry+1, nil, nil, 0); d.cover == nil {
		return errors.New("no completion queue over the key that libsiw cannot use")
	}
	return nil
}
