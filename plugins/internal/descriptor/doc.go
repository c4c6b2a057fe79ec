// Package descriptor does a store's I/O on one descriptor of a file or a block device: blocking positional calls, io_uring in
// batches, and the lock that keeps a successor away until the last request of a dead process has landed.
package descriptor
