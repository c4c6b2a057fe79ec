// Package srp holds the information units of the SCSI RDMA Protocol, revision
// r16a, and the immediate data extension of the SRP-2 draft, as views of bytes.
//
// Parsing checks every length and every sum in 64 bits, once, against the
// number of bytes that were received; accessors rely on that and never fail.
// A view borrows the parsed bytes: it is good for as long as they are. Building
// appends to a slice of the caller's and allocates only if that has no room.
//
// A parse error is a *ParseError. It names the Problem and knows the Answer that
// the standard wants a target to give.
//
// All fields are big endian (r16a clause 6) but for the tag, which is eight
// opaque bytes that are echoed and never interpreted.
package srp
