package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// progress shows, once a second from the second second on, how far something is.
type progress struct {
	w     io.Writer
	mu    sync.Mutex
	begin time.Time
	last  time.Time
	shown bool
}

func newProgress(w io.Writer) *progress {
	now := time.Now()
	return &progress{w: w, begin: now, last: now.Add(time.Second)}
}

func (p *progress) step(moved, all int64) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.last) < time.Second {
		return
	}
	p.last, p.shown = now, true
	rate := float64(moved) / now.Sub(p.begin).Seconds()
	fmt.Fprintf(p.w, "\r%3d%%  %s of %s  %s/s ", 100*moved/max(all, 1), humanize.IBytes(uint64(moved)),
		humanize.IBytes(uint64(all)), humanize.IBytes(uint64(rate)))
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.w)
	}
}
