package conn

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
)

// tableShare is a channel's part of the room for indirect tables: a quarter of it, or one table, so that commands which a
// slow store holds up keep no other initiator's tables out. Commands beyond it wait for those before them on their own channel.
type tableShare struct {
	most, held uint64
	line       []*Command
}

// tableState is what a command has of it.
type tableState struct {
	lease  ioctx.Lease
	size   uint64 // bytes counted in held
	wanted uint64 // bytes waited for in line
}

func (t *tables) share() uint64 {
	if t.arena == nil {
		return 0
	}
	return uint64(len(t.arena.Bytes())) / 4
}

func (s *tableShare) fits(n uint64) bool { return s.held == 0 || s.held+n <= s.most }

// leaseTable gets a command room for its table, when it is its turn.
func (c *Channel) leaseTable(cmd *Command, a channel.Action) {
	s := &c.share
	if len(s.line) > 0 || !s.fits(uint64(a.N)) {
		cmd.table.wanted = uint64(a.N)
		s.line = append(s.line, cmd)
		return
	}
	c.takeTable(cmd, uint64(a.N))
}

func (c *Channel) takeTable(cmd *Command, n uint64) {
	c.share.held += n
	cmd.table.size = n
	c.acquire(c.cfg.Reactor.tables.arena, &cmd.table.lease, channel.EvTable, cmd, n)
}

// giveTable gives a command's room back, or its place in either line, and lets those in whose turn that makes it.
func (c *Channel) giveTable(cmd *Command) {
	s, t := &c.share, &cmd.table
	if t.size == 0 && t.wanted == 0 {
		return
	}
	if t.wanted > 0 {
		t.wanted = 0
		s.line = slices.DeleteFunc(s.line, func(o *Command) bool { return o == cmd })
	}
	giveBack(&t.lease)
	s.held -= t.size
	t.size = 0
	for len(s.line) > 0 && s.fits(s.line[0].table.wanted) {
		next := s.line[0]
		s.line = slices.Delete(s.line, 0, 1)
		n := next.table.wanted
		next.table.wanted = 0
		c.takeTable(next, n)
	}
}

// dropTables gives all table room back at once; no queue pair uses it any more.
func (c *Channel) dropTables() {
	c.share.line = nil
	for i := range c.slots {
		t := &c.slots[i].cmd.table
		t.wanted, t.size = 0, 0
		giveBack(&t.lease)
	}
	c.share.held = 0
}
