package lu

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/scsi"
)

// Attention is a unit attention condition (SAM-5 5.14). The lower its bit, the earlier it is reported.
type Attention uint32

// The conditions.
const (
	// AttnPowerOn greets every nexus once.
	AttnPowerOn Attention = 1 << iota
	AttnReset
	AttnNexusLoss
	// AttnCommandsCleared tells that another nexus' CLEAR TASK SET ended commands of this one.
	AttnCommandsCleared
	AttnLUNsChanged
	AttnInquiryChanged
	AttnCapacityChanged
	AttnModeParametersChanged

	// attentions are all of them.
	attentions = AttnModeParametersChanged<<1 - 1
)

// resets are the conditions that each tell all that the others would.
const resets = AttnPowerOn | AttnReset | AttnNexusLoss

var attentionCodes = [...]scsi.SenseCode{
	scsi.PowerOn, scsi.DeviceReset, scsi.NexusLossOccurred, scsi.CommandsCleared, scsi.ReportedLUNsChanged,
	scsi.InquiryDataChanged, scsi.CapacityChanged, scsi.ModeParametersChanged,
}

// nexus is what a device keeps for one I_T nexus: the conditions that it has not been told yet.
type nexus struct{ pending atomic.Uint32 }

// post establishes conditions; bits that are none are dropped.
func (n *nexus) post(a Attention) { n.pending.Or(uint32(a & attentions)) }

func (n *nexus) clear(a Attention) { n.pending.And(^uint32(a)) }

// take removes the first condition and returns its code, or NoSense if there is none.
func (n *nexus) take() scsi.SenseCode {
	for {
		old := n.pending.Load()
		if old == 0 {
			return scsi.NoSense
		}
		i := bits.TrailingZeros32(old)
		told := uint32(1) << i
		if Attention(told)&resets != 0 {
			told = uint32(resets)
		}
		if n.pending.CompareAndSwap(old, old&^told) {
			return attentionCodes[i]
		}
	}
}

// nexusTable finds a nexus without a lock. A change, which is rare, replaces the map.
type nexusTable struct {
	most int
	mu   sync.Mutex // held by changes
	m    atomic.Pointer[map[NexusID]*nexus]
}

func (t *nexusTable) init(most int) {
	t.most = most
	t.m.Store(&map[NexusID]*nexus{})
}

func (t *nexusTable) count() int { return len(*t.m.Load()) }

// get returns the nexus, which is made with AttnPowerOn pending if it is new, or nil if there are too many.
func (t *nexusTable) get(id NexusID) *nexus {
	if n := (*t.m.Load())[id]; n != nil {
		return n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.m.Load()
	if n := old[id]; n != nil || len(old) >= t.most {
		return n
	}
	n := &nexus{}
	n.post(AttnPowerOn)
	m := maps.Clone(old)
	m[id] = n
	t.m.Store(&m)
	return n
}

func (t *nexusTable) remove(id NexusID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := maps.Clone(*t.m.Load())
	delete(m, id)
	t.m.Store(&m)
}

// NexusLost forgets a nexus whose session is over and whose tasks are done. If the id comes again it is a new nexus.
func (d *Device) NexusLost(id NexusID) { d.nexuses.remove(id) }

// Attend establishes conditions for one nexus. A nexus that has sent no command yet learns nothing: its first command
// is answered with AttnPowerOn.
func (d *Device) Attend(id NexusID, a Attention) {
	if n := (*d.nexuses.m.Load())[id]; n != nil {
		n.post(a)
	}
}

// AttendAll establishes conditions for every nexus but the one that caused them; 0 leaves out none.
func (d *Device) AttendAll(a Attention, except NexusID) {
	for id, n := range *d.nexuses.m.Load() {
		if id != except || except == 0 {
			n.post(a)
		}
	}
}
