// Package pluginhost keeps a plugin alive: it finds the executable, starts it, opens its stores, and when the process
// dies, hangs or breaks the protocol, ends it and brings up another, with the same stores and the same queues.
//
// The queues hide that from whoever uses them: requests wait, and those without an answer are sent again, up to
// host.QueueOptions.Hold. Nothing is sent to a new process before its Open has succeeded, and a plugin's Open succeeds only
// when no I/O of its predecessor can reach the store any more (see sdk/PROTOCOL.md, "Fence"). Until then the memory of the
// predecessor's requests is tainted, see host.Arena.Tainted.
//
// Upgrade puts a process of another executable in the place of the one that serves, without anybody's notice.
//
// Before each start the executable is held against the catalogue of its directory, and its manifest says how the process is kept
// apart (see sdk/PROTOCOL.md, "Catalogue" and "Manifest"). Whatever is wrong concerns this plugin alone and is tried again as any
// failed start is.
//
// [Auth] and [IOCtx] are the same for plugins without data. Questions are not repeated: while there is no process, or it does
// not answer in time, there is no answer, and whoever asked does what is safe. After a restart, and when the plugin says so,
// everything is to be asked anew.
package pluginhost
