package backstoretest_test

import "unsafe"

// overrun is p and the byte after it, which is somebody else's.
func overrun(p []byte) []byte { return unsafe.Slice(unsafe.SliceData(p), len(p)+512) }
