package plugin

import (
	"testing"
	"unsafe"
)

func TestSlowPathBuffersAreAligned(t *testing.T) {
	for _, n := range []int{0, 1, 512, 4096, 100000} {
		b := alignedBytes(n)
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment != 0 {
			t.Errorf("%d bytes: len %d, cap %d, at %p", n, len(b), cap(b), b)
		}
	}
}
