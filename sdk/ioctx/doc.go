// Package ioctx is the contract between gosrpt and a planner of I/O contexts: how many requests a channel may have
// outstanding, how deep its queues are, how long its information units, and how much memory there is for data. It is
// hand written, imports only the standard library, and is stable: see the API listing in testdata.
//
// # A plugin in three steps
//
// Implement [Opener] (it opens a planner by configuration) and [Planner] (two methods). In main, call
// plugin.ServeIOCtx. Prove it with the kit of ioctxtest.
//
// # When it is asked
//
// [Planner.Plan] is called at the start, before there is a channel, and again when a [Watcher] told of a change or the
// plugin's process was replaced. A planner that is also a [Replanner] is asked, too, when the target is short of something.
// No command and no login ever waits for a planner. Without an answer the plan in force stays in force.
//
// # What a plan reaches
//
// A plan holds for channels and arenas that are made after it; what exists stays as it is until it ends.
// Plan.MaxResponseIU never grows while a target runs, because initiators size their buffers by it once.
//
// # Threading
//
// Calls of Plan and Replan never overlap. Open, Watch and Close are called once each: Watch before the first Plan, Close
// after every other call has returned.
//
// # Cancellation
//
// The context of a call ends when the host does not wait for its answer any more. Return then. A host kills a
// plugin that does not answer its questions for half a minute.
//
// # Errors
//
// Return an [Error] to choose the code; any other error counts as [CodeInternal]. A plan that does not pass
// [Plan.Validate] counts as none.
package ioctx
