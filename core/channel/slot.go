package channel

import "github.com/gosrpt/gosrpt/core/srp"

// slotState is where one request is; see design.md.
type slotState uint8

const (
	free          slotState = iota
	executing               // command: with the handler
	waitTable               // command: waits for room for its indirect table
	fetchingTable           // command: RDMA READs of the table are posted
	waitBuffer              // command: waits for a lease
	fetching                // command: RDMA READs are posted
	overlapped              // command: its tag is in use, the older command is ending
	aborting                // task management: commands of this channel are ending
	managing                // task management: with the handler
	responding              // the response is posted
	slotStates
)

// fate is how a command that is with somebody else ends once it is back.
type fate uint8

const (
	fateNormal fate = iota
	fateStatus      // with slot.status, whatever the handler says
	fateVanish      // without a response
)

type slot struct {
	index  uint32
	gen    uint16
	state  slotState
	fate   fate
	status byte // of fateStatus
	isCmd  bool
	holds  bool // recv has not been posted again
	tagged bool // in the tag table
	asked  bool // ActAbort has been given
	buffer bool // a buffer has been asked for, which happens once
	out    bool // it is for data-out
	buf    uint32
	leased uint32 // bytes of the buffer that are the initiator's data
	room   uint32 // bytes of the buffer
	write  uint32 // bytes of data-in to write
	seq    uint64
	tag    srp.Tag
	lun    srp.LUN
	cmd    srp.Cmd
	tm     srp.TskMgmt
	rsp    srp.RspFields
	sense  [srp.MaxSense]byte
}

func (s *slot) handle() Slot { return Slot(uint32(s.gen)<<slotIndexBits | s.index) }

// lookup returns the slot in use that h names, nil if there is none.
func (m *Machine) lookup(h Slot) *slot {
	i := h.Index()
	if i >= len(m.slots) || m.slots[i].state == free || m.slots[i].handle() != h {
		return nil
	}
	return &m.slots[i]
}

// take gives a request its slot. The caller has made sure that one is free.
func (m *Machine) take(buf uint32) *slot {
	last := len(m.free) - 1
	s := &m.slots[m.free[last]]
	m.free = m.free[:last]
	m.busy++
	m.seq++
	s.fate, s.isCmd, s.tagged, s.asked = fateNormal, false, false, false
	s.holds, s.buf, s.seq = true, buf, m.seq
	s.buffer, s.out, s.leased, s.room, s.write = false, false, 0, 0, 0
	s.rsp = srp.RspFields{}
	return s
}

// discard gives a slot back that no action has named yet.
func (m *Machine) discard(s *slot) {
	s.state = free
	s.cmd, s.tm = srp.Cmd{}, nil
	s.gen++
	m.free = append(m.free, s.index)
	m.busy--
}

// release ends a request. Without a response its credit becomes owed.
func (m *Machine) release(s *slot) {
	m.untag(s)
	if s.holds {
		m.vanish(s)
	}
	m.emit(Action{Kind: ActRelease, Slot: s.handle()})
	m.countDown(s)
	m.discard(s)
}

func (m *Machine) vanish(s *slot) {
	m.stats.Vanished++
	m.answered(s)
	if m.state != Live {
		return // no receive is posted on a QP in error
	}
	m.repost(s.buf)
	m.owed++
}

// answered counts a request as no longer waiting for its answer.
func (m *Machine) answered(s *slot) {
	s.holds = false
	m.unanswered--
	if !s.isCmd {
		m.managing--
	}
}

func (m *Machine) repost(buf uint32) {
	m.posted++
	m.emit(Action{Kind: ActRepost, Buf: buf})
}

func (m *Machine) untag(s *slot) {
	if s.tagged {
		m.tags.del(s.tag)
		s.tagged = false
	}
}

func (m *Machine) entag(s *slot) {
	m.tags.put(s.tag, s.index)
	s.tagged = true
}
