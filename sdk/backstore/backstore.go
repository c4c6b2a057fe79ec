package backstore

import "context"

// Backstore opens stores. One process serves one Backstore.
type Backstore interface {
	// Open opens the store that config describes. The map's keys are those of the plugin's
	// documentation; an unknown key or a bad value is an error that names it. ctx bounds the opening only.
	Open(ctx context.Context, config map[string]string) (Store, error)
}

// Store is one open store: a fixed-size array of blocks. See the package comment for threading,
// buffers and durability.
type Store interface {
	// Info describes the store. It is called once, after Open, and does not block.
	Info() Info
	// Read fills p from the store's byte offset off. The host asks only for whole blocks inside
	// the store. Reading fewer bytes than len(p) is an error.
	Read(ctx context.Context, p []byte, off int64) error
	// Write writes p at byte offset off, whole blocks inside the store. With FUA in flags the data
	// is durable when it returns; the host sets FUA only if Info.FUA says so.
	Write(ctx context.Context, p []byte, off int64, flags Flags) error
	// Flush makes every write that returned before the call durable.
	Flush(ctx context.Context) error
	// Close releases the store. Every other call has returned.
	Close() error
}

// Submitter is a Store that takes requests in batches and completes them later, from goroutines of its own. Calls of Submit never overlap, and must not block on I/O. The Requests are values to
// copy: reqs belongs to the caller again when Submit returns. Each is completed exactly once by done, from any goroutine; done does not block.
type Submitter interface {
	Store
	Submit(reqs []Request, done func(Result))
}

// Engines is a Store with an Engine for each queue of the host.
type Engines interface {
	Store
	// NewEngine makes the engine of one queue, with room for depth outstanding requests. wake is an eventfd of
	// the host: it must be written to, by the kernel if possible, after a request has ended that Poll has not returned; those that
	// ended in Submit need no wake, for Poll follows. Nobody reads it, and it stays the host's. ctx bounds the call only.
	NewEngine(ctx context.Context, wake, depth int) (Engine, error)
}

// Engine takes requests in batches and ends them later, in the goroutine that waits for both: for io_uring and its like.
// Its calls never overlap and must not block on I/O.
type Engine interface {
	// Submit takes every request. The Requests are values to copy: reqs belongs to the caller again when Submit returns. Poll is
	// called after it before the caller sleeps.
	Submit(reqs []Request)
	// Poll fills res with requests that have ended, each exactly once, and returns how many. Fewer than len(res) means
	// that there are no more, and that wake will be written to for the next.
	Poll(res []Result) int
	// Close releases the engine. Nothing is outstanding.
	Close() error
}

// Info describes a store.
type Info struct {
	// BlockSize is the logical block size in bytes: 512 or 4096.
	BlockSize uint32
	// PhysicalBlockSize is the size below which a write costs a read-modify-write; a power of two
	// multiple of BlockSize. 0 means BlockSize.
	PhysicalBlockSize uint32
	// Blocks is the number of logical blocks.
	Blocks uint64
	// MaxTransfer is the longest Read or Write in bytes; 0 means no limit of the store's own.
	MaxTransfer uint32
	// OptimalTransfer is the transfer length in bytes that suits the store best; 0 means unknown.
	OptimalTransfer uint32
	// ReadOnly refuses writes.
	ReadOnly bool
	// WriteCache tells that a write may be lost by a power failure until Flush.
	WriteCache bool
	// FUA tells that Write honours the FUA flag.
	FUA bool
	// Concurrency is how many calls may be in the store at once. See the package comment.
	Concurrency int
	// Serial is the store's own idea of its identity, for the operator only: the identity shown to
	// initiators belongs to the host's configuration.
	Serial string
	// Notice, if not empty, is one line for the operator, such as why direct I/O is not in use.
	Notice string
	// UnmapGranularity is the size in bytes of the unit that Unmap gives back, aligned to itself; a power of two multiple of
	// BlockSize. 0 means BlockSize.
	UnmapGranularity uint32
	// UnmapZeroes tells that what has been unmapped reads as zeroes.
	UnmapZeroes bool
	// MaxCompareAndWrite is the longest CompareAndWrite in bytes of data to write; 0 means one block.
	MaxCompareAndWrite uint32
	// Powers is what else the store can do. A store leaves it 0: it is found out by its interfaces, in its process.
	Powers Powers
}

// Op is a request's operation.
type Op uint8

// The operations.
const (
	OpRead Op = iota + 1
	OpWrite
	OpFlush
	// The following come only to a Store that has the power, through the power's method: never through Submitter or Engine.
	OpUnmap
	OpWriteZeroes
	OpCompareAndWrite
	OpWriteSame
)

// Flags modify a request.
type Flags uint8

const (
	// FUA asks that the written data be durable before the request completes.
	FUA Flags = 1 << iota
	// MayUnmap permits OpWriteZeroes to give the blocks back to the medium.
	MayUnmap
)

// Request is one operation, as Submit and the host's queues see it.
type Request struct {
	// Tag is returned in the Result. It is the caller's.
	Tag uint64
	Op
	Flags
	// Off is the byte offset in the store; 0 for OpFlush.
	Off int64
	// Data is the buffer: nil for OpFlush, OpUnmap and OpWriteZeroes, one block for OpWriteSame, and for OpCompareAndWrite
	// what is expected followed by as many bytes to write.
	Data []byte
	// N is how many bytes of the store OpUnmap, OpWriteZeroes and OpWriteSame are about; 0 for the others, for which Data says it.
	N int64
}

// Result ends a request.
type Result struct {
	// Tag is the request's.
	Tag uint64
	// Code is CodeOK, or why it failed.
	Code Code
	// At is the offset in the compared data of the first byte that differs, for CodeMiscompare.
	At uint32
}
