// Package backstore is the contract between gosrpt and a backstore: the place where a logical unit's blocks live. It
// is hand written, imports only the standard library, and is stable: see the API listing in testdata.
//
// # A plugin in three steps
//
// Implement [Backstore] (it opens stores by configuration) and [Store] (five methods). In main,
// call plugin.ServeBackstore. Check the executable with srpt-plugin-check.
//
// # Threading
//
// A Store's methods are called from several goroutines at once, up to [Info.Concurrency]; a value of 0 lets the host
// choose, 1 serialises them. Requests that are outstanding together have no order among them: the host never sends
// two that depend on each other. Close is called once, after every other call has returned.
//
// A Store that also implements [Submitter] or [Engines] gets its reads, writes and flushes in batches instead, one call at
// a time. But a short read or write that is the only one outstanding may still come through Read or Write: a
// caller that waits is quicker than two that wake each other.
//
// # Powers
//
// A Store that can do more has more methods: [Unmapper], [ZeroWriter], [Comparer], [SameWriter], [Resizer], [HealthReporter],
// [Sanitizer]. What a Store has no method for, the host does by reads and writes, or refuses the initiator. Requests of
// these kinds count in [Info.Concurrency], and overlap with the others. A Store whose powers depend on its medium is [Limited].
//
// # Buffers
//
// Data slices are shared memory that an HCA reads and writes. They belong to the store from the
// call until it returns (for Submit: until it completes the request), never longer. They are aligned to 4096 bytes.
// A cancelled context does not give a buffer back: return only when nothing touches it any more.
//
// # Durability
//
// A write that has returned may be lost by a power failure until a later Flush has returned nil, unless the request
// carried [FUA] or [Info.WriteCache] is false. A write that has returned is seen by every later read.
//
// # Errors
//
// Return an [Error] to choose the code; the host turns codes into SCSI sense. Any other error
// counts as [CodeIO]. Never return nil for what was not done.
package backstore
