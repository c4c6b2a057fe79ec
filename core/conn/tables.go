package conn

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// tables is the memory of a reactor that indirect tables are read into. Commands lease it before their data buffers and
// wait for it in one line, so that whoever has table room depends on nobody who waits for some.
type tables struct {
	arena   *ioctx.Arena
	mapping *ioctx.Mapping
}

const (
	// tableBlock is the shortest data that a table entry stands for, on average over the longest transfer: a block.
	tableBlock = 512
	// minTableEntries is what a table may have in any case: as many as a unit can name.
	minTableEntries = 255
)

func (r *Reactor) makeTables() error {
	if r.cfg.TableBytes == 0 {
		return nil
	}
	m, err := ioctx.Map(r.cfg.TableBytes)
	if err != nil {
		return fmt.Errorf("conn: reactor %s: tables: %w", r.cfg.Name, err)
	}
	r.tables.mapping = m
	r.tables.arena, err = ioctx.NewArena(ioctx.ArenaConfig{Name: "tables", Memory: m.Bytes(), MaxWait: r.cfg.TableWait})
	if err != nil {
		return fmt.Errorf("conn: reactor %s: tables: %w", r.cfg.Name, err)
	}
	return r.AddSource(r.tables.arena)
}

// longest is the longest table in bytes that commands of up to transfer bytes may have, 0 if none may be read.
func (t *tables) longest(transfer uint32) uint32 {
	if t.arena == nil {
		return 0
	}
	entries := max(uint64(transfer)/tableBlock, minTableEntries)
	return uint32(min(entries*srp.DescLen, t.arena.Largest()))
}

func (t *tables) register(dev rdma.Device) error {
	if t.arena == nil {
		return nil
	}
	return t.arena.Register(dev)
}

func (t *tables) unregister(dev rdma.Device) error {
	if t.arena == nil {
		return nil
	}
	return t.arena.Unregister(dev)
}

func (t *tables) close() error {
	if t.mapping == nil {
		return nil
	}
	var err error
	if t.arena != nil {
		err = t.arena.Close()
	}
	if err != nil {
		return err // somebody still uses the memory: it stays mapped
	}
	return t.mapping.Close()
}

// TableStats is a snapshot of the memory for indirect tables; zero if there is none.
func (r *Reactor) TableStats() ioctx.ArenaStats {
	if r.tables.arena == nil {
		return ioctx.ArenaStats{}
	}
	return r.tables.arena.Stats()
}
