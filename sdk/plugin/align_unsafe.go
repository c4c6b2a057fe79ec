package plugin

import "unsafe"

// alignment is what backstore promises of every data slice.
const alignment = 4096

// alignedBytes makes n bytes that start at a multiple of alignment.
func alignedBytes(n int) []byte {
	b := make([]byte, n+alignment-1)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1)
	return b[skip : int(skip)+n : int(skip)+n]
}
