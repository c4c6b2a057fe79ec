package main

import (
	"os"
	"runtime"
)

// spareProcessor sees to it that Go's scheduler has a processor to spare, also on a machine with one CPU. Without one, the runtime's
// monitor takes the processor away from each thread that is in a system call or in C for more than 20 us, as posting to an RDMA device
// may be, and wakes every 20 us to look. GOMAXPROCS in the environment is left in force.
func spareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}
