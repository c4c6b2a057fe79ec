package bridge

import (
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/internal/warden"
)

// launcherReady says that this program becomes a launcher when it is started as one.
var launcherReady atomic.Bool

// guard has the warden of this host's plugins.
var guard warden.Guard

// entrust lets the warden clean up after this host, if the program can become one. Without a warden the kernel kills the plugin all
// the same, but not its children, and its directory stays until the next start.
func (p *Process) entrust(pid int) {
	if !launcherReady.Load() {
		return
	}
	forget, err := guard.Entrust(pid, p.dir.lock)
	if err != nil {
		p.log.Warn("if this process is killed, children of the plugin may survive it", "pid", pid, "error", err)
		return
	}
	p.forget = forget
}

// LauncherReady is for a host program's main, when it has found that it was not started as a launcher.
func LauncherReady() { launcherReady.Store(true) }
