package store

import "unsafe"

// liesIn tells whether all of p lies in the arena, and begins at a multiple of bufferAlign from the
// arena's beginning. It compares addresses and touches neither.
func liesIn(arena, p []byte) bool {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(arena)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	if at < base {
		return false
	}
	off := at - base
	return off <= uintptr(len(arena)) && uintptr(len(p)) <= uintptr(len(arena))-off && off%bufferAlign == 0
}
