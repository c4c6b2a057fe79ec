package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Unit is a logical unit behind a LUN.
type Unit struct {
	// LUN is 0..scsi.MaxLUN.
	LUN uint16
	// Unit executes its commands.
	Unit *lu.Unit
	// Arena is where its data buffers come from. Units may share one. It stays the caller's, to be
	// closed after Shutdown.
	Arena *ioctx.Arena
}

// lunMap finds the unit of a LUN. It belongs to the reactor's goroutine, but for list.
type lunMap struct {
	units   []*mapped // by number
	missing mapped
	known   mapped
	// missed are the names that were granted and reported missing, so that each is reported once.
	missed map[string]bool
	// list is the LUN fields in use, in ascending order; it is replaced as a whole.
	list atomic.Pointer[[]uint64]
	// views are those of the sessions that do not see every unit under the target's numbers; it is replaced as a whole.
	views atomic.Pointer[map[lu.NexusID]*view]
}

// mapped is a unit in the map.
type mapped struct {
	lun   uint16
	unit  *lu.Unit
	arena *ioctx.Arena
}

func newLUNMap() *lunMap {
	m := &lunMap{missed: make(map[string]bool)}
	m.list.Store(&[]uint64{})
	m.views.Store(&map[lu.NexusID]*view{})
	return m
}

// AppendLUNs lists the LUNs that the nexus may use. It is the lu.Inventory of the target's devices.
func (m *lunMap) AppendLUNs(dst []uint64, id lu.NexusID) []uint64 {
	if v := (*m.views.Load())[id]; v != nil {
		return append(dst, *v.list.Load()...)
	}
	return append(dst, *m.list.Load()...)
}

// find returns the unit that executes commands for a LUN field.
func (m *lunMap) find(field uint64) *mapped {
	if n, ok := scsi.DecodeLUN(field); ok {
		if int(n) < len(m.units) && m.units[n] != nil {
			return m.units[n]
		}
	} else if field == scsi.WellKnownReportLUNs {
		return &m.known
	}
	return &m.missing
}

// real tells whether a LUN field names a logical unit, and returns it.
func (m *lunMap) real(field uint64) (*mapped, bool) {
	u := m.find(field)
	return u, u != &m.missing && u != &m.known
}

func (m *lunMap) set(u *mapped) {
	for len(m.units) <= int(u.lun) {
		m.units = append(m.units, nil)
	}
	m.units[u.lun] = u
	delete(m.missed, u.unit.Device().Name())
	m.publish()
}

func (m *lunMap) clear(lun uint16) {
	m.units[lun] = nil
	m.publish()
}

func (m *lunMap) publish() {
	var list []uint64
	for n, u := range m.units {
		if u != nil {
			list = append(list, scsi.EncodeLUN(uint16(n)))
		}
	}
	slices.Sort(list)
	m.list.Store(&list)
}

// each calls f for every unit.
func (m *lunMap) each(f func(*mapped)) {
	for _, u := range m.units {
		if u != nil {
			f(u)
		}
	}
}

// shared tells whether another LUN than lun uses the arena.
func (m *lunMap) shared(a *ioctx.Arena, lun uint16) bool {
	for _, u := range m.units {
		if u != nil && u.lun != lun && u.arena == a {
			return true
		}
	}
	return false
}

// Inventory lists the target's LUNs for lu.Config.
func (t *Target) Inventory() lu.Inventory { return t.luns }

// AddUnit puts a logical unit behind a LUN. Its guard and arena are used by the target's reactor
// from then on until RemoveUnit or Shutdown. Sessions that exist learn of it by a unit attention of
// the other units. Errors that wrap ErrConfig tell that the LUN is taken, or the arena too small.
func (t *Target) AddUnit(ctx context.Context, u Unit) error {
	if u.LUN > scsi.MaxLUN || u.Unit == nil || u.Unit.Store() == nil || u.Arena == nil {
		return fmt.Errorf("target %s: LUN %d: %w: a unit with a store and an arena, and a LUN up to %d, are needed",
			t.cfg.Name, u.LUN, ErrConfig, scsi.MaxLUN)
	}
	if have, want := u.Arena.Largest(), uint64(u.Unit.Device().MaxTransfer()); have < want {
		return fmt.Errorf("target %s: LUN %d: %w: arena %s lends buffers of %d bytes, the unit's longest transfer is %d",
			t.cfg.Name, u.LUN, ErrConfig, u.Arena.Name(), have, want)
	}
	var err error
	if e := t.reactor.Call(ctx, func() { err = t.addUnit(u) }); e != nil {
		return fmt.Errorf("target %s: LUN %d: %w", t.cfg.Name, u.LUN, e)
	}
	return err
}

func (t *Target) addUnit(u Unit) error {
	if _, taken := t.luns.real(scsi.EncodeLUN(u.LUN)); taken {
		return fmt.Errorf("target %s: LUN %d: %w: it is in use", t.cfg.Name, u.LUN, ErrConfig)
	}
	for _, dev := range t.deviceList() {
		if err := u.Arena.Register(dev); err != nil {
			return fmt.Errorf("target %s: LUN %d: %w", t.cfg.Name, u.LUN, err)
		}
	}
	if err := t.reactor.AddSource(u.Unit.Store()); err != nil {
		return fmt.Errorf("target %s: LUN %d: %w", t.cfg.Name, u.LUN, err)
	}
	if !t.luns.shared(u.Arena, u.LUN) {
		if err := t.reactor.AddSource(u.Arena); err != nil {
			t.reactor.RemoveSource(u.Unit.Store())
			return fmt.Errorf("target %s: LUN %d: %w", t.cfg.Name, u.LUN, err)
		}
	}
	t.luns.set(&mapped{lun: u.LUN, unit: u.Unit, arena: u.Arena})
	t.lunsChanged()
	return nil
}

// RemoveUnit takes the logical unit of a LUN away: its commands are aborted, and when it returns nil
// nothing of the target uses its guard any more, nor its arena if no other unit shares it. If ctx
// ends first the unit is out of the map, but commands may still hold its buffers.
func (t *Target) RemoveUnit(ctx context.Context, lun uint16) error {
	var m *mapped
	gone := make(chan struct{})
	err := t.reactor.Call(ctx, func() {
		u, ok := t.luns.real(scsi.EncodeLUN(lun))
		if !ok {
			close(gone)
			return
		}
		m = u
		where := t.where(u)
		t.luns.clear(lun)
		t.lunsChanged()
		abortWhere(where, func() { close(gone) })
	})
	if err == nil {
		select {
		case <-gone:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil && m == nil {
		err = errors.New("there is no unit")
	}
	if err == nil {
		err = t.reactor.Call(ctx, func() {
			for _, s := range t.sessions {
				m.unit.NexusLost(s.id)
			}
			t.reactor.RemoveSource(m.unit.Store())
			if !t.luns.shared(m.arena, lun) {
				t.reactor.RemoveSource(m.arena)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("target %s: remove LUN %d: %w", t.cfg.Name, lun, err)
	}
	return nil
}

func lunField(n uint16) srp.LUN {
	l, _ := srp.MakeLUN(uint32(n))
	return l
}
