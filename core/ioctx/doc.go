// Package ioctx owns the memory that I/O runs through: arenas of data buffers that an HCA and a
// backstore process share, and the rings of receive and send buffers of a channel.
//
// An [Arena] hands out contiguous buffers as [Lease] values, embedded in whoever uses them, so that
// a command allocates nothing. When no buffer is free a lease waits in line, and nobody who came later gets one before, whatever the
// sizes, but in turn: nexuses take turns, the units of a nexus take turns, and those of a unit are served as they came ([Turn]). So
// a nexus that has nothing waiting gets its buffer after at most one buffer for each other nexus that waits. Nobody waits longer than
// [Plan.MaxWait].
//
// Arenas and leases have one owner goroutine, the reactor's. Rings are only memory; who may write
// where follows from the queue pair that they were posted to.
//
// A [Plan] says how much of everything there is. It is a plain value; the defaults are those that
// a Linux initiator is content with.
package ioctx
