package host

import (
	"errors"
	"maps"
	"time"
)

// watchPeriod bounds for how long a doorbell that a hostile plugin made block holds up the goroutine that rings it, and so every
// other queue of that goroutine: to twice as long.
const watchPeriod = 50 * time.Millisecond

// errBell says that a plugin made its doorbell block: only a hostile one can.
var errBell = errors.New("host: the plugin made its own doorbell block")

// watchdog looks at every link of the process once a watchPeriod.
func (p *Process) watchdog() {
	t := time.NewTicker(watchPeriod)
	defer t.Stop()
	last := map[link]sample{}
	for {
		select {
		case <-p.dead:
			return
		case now := <-t.C:
			p.look(now, last)
		}
	}
}

// sample is what a link's pulse was when it moved last.
type sample struct {
	pulse
	moved time.Time
}

func (p *Process) look(now time.Time, last map[link]sample) {
	p.mu.Lock()
	defer p.mu.Unlock() // a link in the map is not released
	maps.DeleteFunc(last, func(l link, _ sample) bool { return p.links[l] == nil })
	var worst time.Duration
	for l := range p.links {
		is := l.pulse()
		if is.bellStuck {
			p.fault(errBell)
		}
		was, ok := last[l]
		if !ok || !is.waiting || is != was.pulse {
			last[l] = sample{pulse: is, moved: now}
			continue
		}
		worst = max(worst, now.Sub(was.moved))
	}
	p.stalled.Store(int64(worst))
}

// Stalled is for how long the plugin has not taken requests that wait; zero if none do.
func (p *Process) Stalled() time.Duration { return time.Duration(p.stalled.Load()) }
