package plugintest

import (
	"fmt"
	"sync"
)

const (
	page   = 4096
	canary = 0xc5
)

// pool lends parts of an arena, each with a page of canaries on both sides.
type pool struct {
	bytes []byte

	mu    sync.Mutex
	room  *sync.Cond
	taken []bool // by page
}

// lease is a part that is lent: pages of the arena, the first and the last of which are canaries.
type lease struct {
	first, pages int
	data         []byte
}

func newPool(bytes []byte) *pool {
	p := &pool{bytes: bytes, taken: make([]bool, len(bytes)/page)}
	p.room = sync.NewCond(&p.mu)
	return p
}

// lend waits until there is room for n bytes.
func (p *pool) lend(n int) (lease, error) {
	pages := (n+page-1)/page + 2
	if pages > len(p.taken) {
		return lease{}, fmt.Errorf("plugintest: a request of %d bytes does not fit into the arena of the check", n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if at := p.find(pages); at >= 0 {
			for i := range pages {
				p.taken[at+i] = true
			}
			all := p.bytes[at*page : (at+pages)*page]
			for i := range all {
				all[i] = canary
			}
			return lease{first: at, pages: pages, data: all[page : page+n : page+n]}, nil
		}
		p.room.Wait()
	}
}

func (p *pool) find(pages int) int {
	run := 0
	for i, taken := range p.taken {
		if run++; taken {
			run = 0
		}
		if run == pages {
			return i + 1 - pages
		}
	}
	return -1
}

// back takes a part back, and tells whether a byte around its data was touched.
func (p *pool) back(l lease) error {
	all := p.bytes[l.first*page : (l.first+l.pages)*page]
	err := intact(all[:page], -page)
	if err == nil {
		err = intact(all[page+len(l.data):], len(l.data))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range l.pages {
		p.taken[l.first+i] = false
	}
	p.room.Broadcast()
	return err
}

func intact(b []byte, off int) error {
	for i, c := range b {
		if c != canary {
			return fmt.Errorf("the plugin touched byte %d of the arena, counted from the beginning of a request's data", off+i)
		}
	}
	return nil
}
