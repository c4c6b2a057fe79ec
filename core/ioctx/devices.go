package ioctx

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Unregister takes a device's access away. No queue pair of the device may use the arena any more; buffers may still be lent out. It does
// nothing if the device has none.
func (a *Arena) Unregister(dev rdma.Device) error {
	i := slices.IndexFunc(a.access, func(r deviceRegion) bool { return r.dev == dev })
	if i < 0 {
		return nil
	}
	region := a.access[i].region
	a.access = slices.Delete(a.access, i, i+1)
	return region.Close()
}
