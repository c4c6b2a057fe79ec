package bridge

import "sync/atomic"

// launcherReady says that this program becomes a launcher when it is started as one.
var launcherReady atomic.Bool

// LauncherReady is for a host program's main, when it has found that it was not started as a launcher.
func LauncherReady() { launcherReady.Store(true) }
