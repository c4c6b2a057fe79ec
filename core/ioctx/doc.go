// Package ioctx owns the memory that I/O runs through: arenas of data buffers that an HCA and a
// backstore process share, and the rings of receive and send buffers of a channel.
//
// An [Arena] hands out contiguous buffers as [Lease] values, embedded in whoever uses them, so that
// a command allocates nothing. When no buffer is free a lease waits in line; the line is first
// come, first served, whatever the sizes, and nobody waits longer than [Plan.MaxWait].
//
// Arenas and leases have one owner goroutine, the reactor's. Rings are only memory; who may write
// where follows from the queue pair that they were posted to.
//
// A [Plan] says how much of everything there is. It is a plain value; the defaults are those that
// a Linux initiator is content with.
package ioctx
