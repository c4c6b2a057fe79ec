// Package conn runs SRP channels on RDMA queue pairs.
//
// A [Reactor] is one goroutine that owns a completion queue on every device, the channels made on
// them, and the sources (stores, arenas) that its commands use. One turn of its loop goes
//
//	completions -> channels -> store doorbells -> store results -> responses -> transmission
//
// so a command travels from its receive to its response without a lock, a hand-off or an
// allocation. The reactor sleeps at one place, with every source armed.
//
// A [Channel] binds the pure machine of package channel to a queue pair: it posts receives and
// sends, moves the data of commands by RDMA READ and RDMA WRITE, and hands commands to a
// [Handler], which is the SCSI side.
package conn
