// Package store is the wall between a logical unit and its backstore, which may be slow, dead, wrong or hostile.
//
// A Guard checks each request before a Backend sees it, and each result before a logical unit does. It queues what the
// backend has no room for, gives every request a deadline, and survives the replacement of the backend: what an old
// backend did not finish is given to the next one, or fails with a code that the initiator retries.
//
// # Who holds a buffer
//
// A request's buffer belongs to the backend from the moment it takes the request until its result has been polled, or
// until the backend is closed. No deadline, abort or fault gives it back earlier: an overdue request is reported to
// Config.OnFault, whose duty it is to have the backend closed and then to call Guard.Detach. A request that waits in the
// guard's own queue belongs to nobody else, so it can be cancelled, and it fails by itself after Config.Patience.
//
// # Threading
//
// A Guard belongs to one goroutine, the reactor's, which makes every call but Stats. It starts no goroutine, takes no
// lock and allocates nothing for a request.
package store
