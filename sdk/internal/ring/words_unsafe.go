package ring

import (
	"sync/atomic"
	"unsafe"
)

// word32 is the shared word at b[off]. b outlives it, and starts at least 8-byte aligned.
func word32(b []byte, off int) *atomic.Uint32 {
	_ = b[off+3]
	return (*atomic.Uint32)(unsafe.Pointer(&b[off]))
}

// word64 is the shared word at b[off]. b outlives it, and starts at least 8-byte aligned.
func word64(b []byte, off int) *atomic.Uint64 {
	_ = b[off+7]
	return (*atomic.Uint64)(unsafe.Pointer(&b[off]))
}

// alignedBytes makes n bytes that start 8-byte aligned.
func alignedBytes(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}
