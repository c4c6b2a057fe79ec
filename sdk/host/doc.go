// Package host is the host's half of the plugin protocol: it starts plugin processes, opens their stores, and moves
// requests to them and results back. It does not restart anything; core/pluginhost does.
//
// An [Arena] is the memory that data lies in. A [Process] is one life of one plugin. A [Store] is open in one
// process. A [Queue] outlives processes: it holds the requests in flight, and is attached to a store of one process
// after another. When a process dies, its queue keeps what was not answered and sends it again after the next Attach, if the
// operation can be repeated and nobody has cancelled it. What the dead process had of the arena is tainted until [Store.Lift].
//
// [Auth] and [IOCtx] are one life of a plugin of the control plane: it is opened, asked, and watched for changes.
//
// This package is not stable. Plugins have no use for it.
package host
