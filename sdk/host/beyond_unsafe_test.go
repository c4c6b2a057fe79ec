package host_test

import "unsafe"

// beyond is the last 256 bytes of b and the 256 bytes after it, which must not be touched.
func beyond(b []byte) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), len(b)-256)), 512)
}
