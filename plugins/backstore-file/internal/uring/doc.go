// Package uring is the little of io_uring that a file backstore needs: positional reads, writes and fdatasync on
// one descriptor, submitted in batches and reaped by a goroutine that waits in Go's poller.
package uring
