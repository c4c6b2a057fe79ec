package host

import "unsafe"

// offset is where p lies in the arena; false if it is not inside. An empty p lies at 0.
func offset(arena, p []byte) (uint64, bool) {
	if len(p) == 0 {
		return 0, true
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(arena)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	if at < base || at-base > uintptr(len(arena)) || uintptr(len(p)) > uintptr(len(arena))-(at-base) {
		return 0, false
	}
	return uint64(at - base), true
}
