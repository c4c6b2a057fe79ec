// Package backstoretest is the conformance kit of sdk/backstore: [Test] proves a Backstore in the test of its author, [Checks] for a tool,
// without a host. Checks are chosen by what the store declares; one that does not apply is skipped and says why.
//
// Buffers are shared memory, as in service, aligned to 4096 bytes and surrounded by bytes that a store must not touch.
package backstoretest
