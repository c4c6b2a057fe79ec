// Package remote makes a plugin process look like a backstore.Backstore in this process, so that the conformance kit and
// benchmarks of the contract run over the real protocol: the executable, its handshake, the ring or the slow path.
//
// Requests are calls that any goroutine makes; data are copied to and from the arena. It is for proving plugins, not for serving.
package remote
