package roce

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bytesAt is what a vector points to.
func bytesAt(v unix.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }
