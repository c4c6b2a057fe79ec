package mad

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

const (
	// DefaultSlots is the number of slots unless Config names one.
	DefaultSlots = 16
	// DefaultResponseTime is the response time exponent unless Config names one: 4.3 s.
	DefaultResponseTime = 20
)

// Config is what an agent says of its I/O unit. Zero values stand for defaults.
type Config struct {
	// Slots is how many controllers there is room for, up to MaxSlots.
	Slots int
	// ResponseTime promises an answer within 4.096 us * 2^ResponseTime, up to 31.
	ResponseTime uint8
	// ChangeID is the change id of the first table; by default 1. Give a number that differs from run to run, and
	// initiators notice a restart.
	ChangeID uint16
}

// Agent answers Device Management requests of one port for a table of controllers. It is immutable.
type Agent struct {
	classPortInfo [ClassPortInfoSize]byte
	unit          [IOUnitInfoSize]byte
	slots         []*published
}

// published is a controller in its slot, ready to be sent.
type published struct {
	guid     ib.GUID
	profile  []byte
	services []byte
}

// New makes an agent for these controllers, which get the slots 1, 2 and so on. The arguments are copied. Errors wrap
// ErrTable.
func New(cfg Config, controllers []Controller) (*Agent, error) {
	if cfg.Slots == 0 {
		cfg.Slots = DefaultSlots
	}
	if cfg.ResponseTime == 0 {
		cfg.ResponseTime = DefaultResponseTime
	}
	if cfg.ChangeID == 0 {
		cfg.ChangeID = 1
	}
	if cfg.Slots < 0 || cfg.Slots > MaxSlots || cfg.ResponseTime > 31 {
		return nil, fmt.Errorf("%w: %d slots and response time %d; there can be 1 to %d, and 1 to 31",
			ErrTable, cfg.Slots, cfg.ResponseTime, MaxSlots)
	}
	a := &Agent{slots: make([]*published, cfg.Slots)}
	a.classPortInfo = [ClassPortInfoSize]byte{0: ib.MADBaseVersion, 1: ClassVersion, 7: cfg.ResponseTime}
	slots, err := a.place(controllers)
	if err != nil {
		return nil, err
	}
	return a.with(slots, cfg.ChangeID), nil
}

// Update makes an agent that answers for these controllers. Those that a answers for keep their slots, new ones get the
// lowest free slots. If anything that can be asked has changed, the change id is one more than that of a, modulo 2^16
// (IBTA 16.3.3.3); if nothing has, a itself is returned. The arguments are copied. Errors wrap ErrTable, and a stays
// good.
func (a *Agent) Update(controllers []Controller) (*Agent, error) {
	slots, err := a.place(controllers)
	if err != nil {
		return nil, err
	}
	if same(a.slots, slots) {
		return a, nil
	}
	return a.with(slots, a.ChangeID()+1), nil
}

// with is an agent like a for another table.
func (a *Agent) with(slots []*published, changeID uint16) *Agent {
	next := &Agent{classPortInfo: a.classPortInfo, slots: slots}
	unit := IOUnitInfo(next.unit[:])
	binary.BigEndian.PutUint16(unit, changeID)
	unit[2] = byte(len(slots))
	for i, p := range slots {
		if p != nil {
			unit.setState(i+1, slotInstalled)
		}
	}
	return next
}

// ChangeID is the change id that IOUnitInfo tells.
func (a *Agent) ChangeID() uint16 { return IOUnitInfo(a.unit[:]).ChangeID() }

// Slot is where the controller of that GUID is, from 1; 0 if the agent does not answer for it.
func (a *Agent) Slot(guid ib.GUID) int {
	for i, p := range a.slots {
		if p != nil && p.guid == guid {
			return i + 1
		}
	}
	return 0
}

// place checks the controllers and gives each a slot.
func (a *Agent) place(controllers []Controller) ([]*published, error) {
	if len(controllers) > len(a.slots) {
		return nil, fmt.Errorf("%w: %d controllers for %d slots; configure more slots", ErrTable, len(controllers), len(a.slots))
	}
	slots := make([]*published, len(a.slots))
	var arrived []*published
	seen := make(map[ib.GUID]bool, len(controllers))
	for i := range controllers {
		c := &controllers[i]
		if err := c.check(); err != nil {
			return nil, err
		}
		if seen[c.GUID] {
			return nil, c.bad("is there twice")
		}
		seen[c.GUID] = true
		p := publish(c)
		if n := a.Slot(c.GUID); n > 0 {
			slots[n-1] = p
		} else {
			arrived = append(arrived, p)
		}
	}
	for i := range slots {
		if slots[i] == nil && len(arrived) > 0 {
			slots[i], arrived = arrived[0], arrived[1:]
		}
	}
	return slots, nil
}

func publish(c *Controller) *published {
	p := &published{guid: c.GUID, profile: c.appendProfile(make([]byte, 0, ProfileSize))}
	for _, s := range c.Services {
		p.services = s.append(p.services)
	}
	return p
}

// same tells whether two tables of as many slots give the same answers.
func same(a, b []*published) bool {
	for i, p := range a {
		q := b[i]
		if (p == nil) != (q == nil) {
			return false
		}
		if p != nil && !(bytes.Equal(p.profile, q.profile) && bytes.Equal(p.services, q.services)) {
			return false
		}
	}
	return true
}
