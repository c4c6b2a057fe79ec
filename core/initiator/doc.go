// Package initiator is an SRP initiator over the seam of package rdma: for the product's own
// benchmark, its demo and its tests.
//
// Dial logs in with one or more channels and gives a Session. Commands go out by Session.Submit,
// any number at a time, and come back through Command.Done; or one at a time by Do and the
// methods built on it. A Session has one goroutine, which owns the completion queue of all its
// channels. It honours the target's credits and keeps the last one of each channel for task
// management. In steady state Submit and completion allocate nothing.
//
// A Session does not reconnect. Once it has lost a channel, for whatever reason, all its channels
// are closed, every command ends with the reason in Result.Err, and Done is closed.
package initiator
