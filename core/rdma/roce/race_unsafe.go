//go:build race

package roce

import (
	"runtime"
	"unsafe"
)

// What one goroutine did before it sent a packet happens before what another does after it has
// received it. The race detector cannot see that through the kernel; package syscall tells it the
// same of Write and Read.
var packetSync int64

func beforeSend()   { runtime.RaceReleaseMerge(unsafe.Pointer(&packetSync)) }
func afterReceive() { runtime.RaceAcquire(unsafe.Pointer(&packetSync)) }
