// Package uring is the little of io_uring that a file backstore needs: positional reads, writes and fdatasync on
// one descriptor, submitted in batches and reaped by the goroutine that submits.
package uring
