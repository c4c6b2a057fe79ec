// Package auth is the contract between gosrpt and an authoriser: who may log in, which logical units it sees, and how
// much of the target it may use. It is hand written, imports only the standard library, and is stable: see the API
// listing in testdata.
//
// # A plugin in three steps
//
// Implement [Opener] (it opens an authoriser by configuration) and [Authorizer] (two methods). In main, call
// plugin.ServeAuth. Prove it with the kit of authtest.
//
// # When it is asked
//
// [Authorizer.Decide] is called once for each login, before anything of it is accepted, and again for a session that
// lives: when a [Watcher] told of a change, and when the plugin's process was replaced. No command ever waits for an
// authoriser. Without an answer a login is refused; a session that lives goes on as it is until there is one.
//
// SRP has no authentication: port identifiers are what the initiator says they are. The source GID and address are
// the fabric's word.
//
// # Threading
//
// Decide is called from several goroutines at once. Open, Watch and Close are called once each: Watch before the first
// Decide, Close after every Decide has returned.
//
// # Cancellation
//
// The context of Decide ends when the login's time is up, a few seconds at most; an answer after that counts for
// nothing. Return when it ends. A host kills a plugin that does not answer its questions for half a minute.
//
// # Errors
//
// A refusal is a [Decision] with a Reason, not an error. An error says that no decision could be made. Return an
// [Error] to choose the code; any other error counts as [CodeInternal].
package auth
