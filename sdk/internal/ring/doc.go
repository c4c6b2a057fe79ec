// Package ring is the data path between a host and its plugin: two queues in shared memory, requests one way and
// completions the other, each with one producer and one consumer. sdk/PROTOCOL.md has the layout byte by byte.
//
// A ring lies in two regions. The host's is written by the host alone, and the plugin maps it read-only; the
// plugin's is written by the plugin alone. So neither side can damage what the other must rely on, and what a side
// reads of its peer's words is copied first and checked afterwards. Own indices are kept in private memory.
//
// A request carries a tag that names the host's slot and the number of times that the slot has been used. A completion must name a
// slot in flight by exactly that tag, in the ring's generation: a second completion, one for a finished request and
// one of an earlier process are all told apart from a right one.
//
// The halves allocate nothing after their creation and take no lock. Each half belongs to one goroutine, but for
// Plugin.Complete and Plugin.Publish, whose callers take turns.
package ring
