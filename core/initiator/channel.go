package initiator

import (
	"math"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Slots of a channel beyond those of commands: one for task management, some for answers to what
// the target asks, one for SRP_I_LOGOUT.
const (
	taskSlots   = 1
	answerSlots = 4
	logoutSlots = 1
	// spareReceives are for what the target sends unasked.
	spareReceives = 4
)

func sendSlots(depth int) int { return depth + taskSlots + answerSlots + logoutSlots }
func receives(depth int) int  { return depth + taskSlots + spareReceives }

// tagTask marks the tags of task management functions, as an aid to whoever reads a trace.
const tagTask = srp.Tag(1) << 63

// slotBits is how much of a tag names the slot; the rest counts how often the slot was used.
const slotBits = 16

// slot holds one unit to be sent, and what waits for its answer.
type slot struct {
	index int
	uses  uint64
	tag   srp.Tag
	iu    []byte
	off   int
	// sending tells that the unit belongs to the queue pair.
	sending bool
	// cmd or task waits for the answer.
	cmd  *Command
	task *task
	// seq is the place of the unit in the order of sending.
	seq uint64
	sgl [1]rdma.SGE
}

func (sl *slot) free() bool { return !sl.sending && sl.cmd == nil && sl.task == nil }

// newTag gives the slot's next use a tag that no use before had.
func (sl *slot) newTag() srp.Tag {
	sl.uses++
	sl.tag = srp.Tag(sl.uses<<slotBits&^uint64(tagTask)) | srp.Tag(sl.index)
	return sl.tag
}

// channel is one connection.
type channel struct {
	s     *Session
	index int
	qp    rdma.QP
	// login gets the outcome of the login once.
	login chan error
	up    bool

	// What the login has settled: the longest units each way, and whether immediate data was
	// granted.
	maxITIU, maxTIIU uint32
	immediate        bool
	// limit is the request limit: how many requests may be sent (SRP r16a 5.2.1).
	limit int32

	sendMem, recvMem rdma.Region
	// tableMem holds, for each command slot, the part of its indirect table that the target reads. Nil without
	// Config.TableEntries.
	tableMem   rdma.Region
	slots      []slot
	unused     []*slot
	taskSlot   *slot
	answers    []*slot
	logoutSlot *slot

	waiting fifo[*Command]
	tasks   fifo[*task]
	// outbox is encoded work that has not been posted.
	outbox []rdma.Work
	// fields, outList and inList are for encoding.
	fields          srp.CmdFields
	outList, inList []srp.Desc
	// repost is for posting a receive again.
	repost [1]rdma.Work
	rsge   [1]rdma.SGE
}

// user is the channel's QPConfig.User.
func (ch *channel) user() uint64 { return uint64(ch.index) + 1 }

// load is how many commands the channel has to do.
func (ch *channel) load() int {
	return ch.waiting.len() + ch.s.cfg.QueueDepth - len(ch.unused)
}

// openChannel makes the queue pair and sends the login. The outcome comes through login.
func (s *Session) openChannel(index int) (*channel, error) {
	depth := s.cfg.QueueDepth
	ch := &channel{s: s, index: index, login: make(chan error, 1)}
	qp, err := s.cq.NewQP(rdma.QPConfig{User: ch.user(), SendDepth: sendSlots(depth), RecvDepth: receives(depth), MaxSGE: 1})
	if err != nil {
		return nil, err
	}
	ch.qp = qp
	req := s.cfg.loginRequest(index)
	private := req.AppendRDMA(nil)
	if s.cfg.Service.ID != 0 {
		private = req.Append(nil)
	}
	err = qp.Connect(rdma.ConnectParams{Local: s.cfg.Local, Remote: s.cfg.service(), Private: private, Timeout: s.cfg.Timeout})
	if err != nil {
		qp.Close()
		return nil, err
	}
	return ch, nil
}

// makeSlots registers the unit buffers and lays the slots over them.
func (ch *channel) makeSlots() error {
	depth, size := ch.s.cfg.QueueDepth, int(ch.maxITIU)
	n := sendSlots(depth)
	var err error
	if ch.sendMem, err = ch.s.cfg.Device.Register(make([]byte, n*size), 0); err != nil {
		return err
	}
	ch.slots = make([]slot, n)
	for i := range ch.slots {
		sl := &ch.slots[i]
		sl.index, sl.off = i, i*size
		sl.iu = ch.sendMem.Bytes()[i*size : i*size : (i+1)*size]
		switch {
		case i < depth:
			ch.unused = append(ch.unused, sl)
		case i < depth+taskSlots:
			ch.taskSlot = sl
		case i < depth+taskSlots+answerSlots:
			ch.answers = append(ch.answers, sl)
		default:
			ch.logoutSlot = sl
		}
	}
	ch.outbox = make([]rdma.Work, 0, n)
	most := max(maxList, ch.s.cfg.TableEntries)
	ch.outList, ch.inList = make([]srp.Desc, 0, most), make([]srp.Desc, 0, most)
	if t := ch.s.cfg.TableEntries; t > 0 {
		ch.tableMem, err = ch.s.cfg.Device.Register(make([]byte, depth*t*srp.DescLen), rdma.RemoteRead)
	}
	return err
}

// makeReceives registers the receive buffers and posts them.
func (ch *channel) makeReceives() error {
	n, size := receives(ch.s.cfg.QueueDepth), int(ch.maxTIIU)
	var err error
	if ch.recvMem, err = ch.s.cfg.Device.Register(make([]byte, n*size), 0); err != nil {
		return err
	}
	for i := range n {
		if err := ch.receive(uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// receive posts receive buffer i.
func (ch *channel) receive(i uint64) error {
	ch.rsge[0] = rdma.SGE{Region: ch.recvMem, Off: i * uint64(ch.maxTIIU), Len: uint64(ch.maxTIIU)}
	ch.repost[0] = rdma.Work{ID: i, Op: rdma.OpRecv, SGL: ch.rsge[:]}
	_, err := ch.qp.PostRecv(ch.repost[:])
	return err
}

// complete handles a completion of the queue pair.
func (ch *channel) complete(c *rdma.Completion) {
	switch {
	case c.Op == rdma.OpEvent:
		ch.event(c)
	case c.Status != rdma.StatusOK:
		ch.broken(c)
	case c.Op == rdma.OpRecv:
		ch.received(c)
	default:
		ch.sent(&ch.slots[c.ID])
	}
}

// broken handles work that failed. What flushes is followed by the event that tells why.
func (ch *channel) broken(c *rdma.Completion) {
	if c.Status != rdma.StatusFlushed {
		ch.s.stop(ch.s.fail("transfer", errorOf(c.Status)))
	}
}

// sent takes a unit back from the queue pair.
func (ch *channel) sent(sl *slot) {
	sl.sending = false
	ch.recycle(sl)
}

// recycle gives a command's slot back once nothing needs it.
func (ch *channel) recycle(sl *slot) {
	if sl.free() && sl.index < ch.s.cfg.QueueDepth {
		ch.unused = append(ch.unused, sl)
	}
}

// grant adds credits. What a target says beyond all measure is cut off.
func (ch *channel) grant(delta int32) {
	ch.limit = int32(min(max(int64(ch.limit)+int64(delta), math.MinInt32), math.MaxInt32))
}

// pump sends what may be sent. A command leaves one credit for task management.
func (ch *channel) pump() {
	if !ch.up {
		return
	}
	for ch.tasks.len() > 0 && ch.limit > 0 && ch.taskSlot.free() {
		ch.sendTask(ch.tasks.pop())
	}
	for ch.waiting.len() > 0 && ch.limit > 1 && len(ch.unused) > 0 {
		ch.sendCommand(ch.waiting.pop())
	}
	ch.post()
}

// sendCommand encodes a command into a slot.
func (ch *channel) sendCommand(c *Command) {
	sl := ch.unused[len(ch.unused)-1]
	if err := ch.encode(sl, c); err != nil {
		c.fail(ch.s.fail("submit", err))
		return
	}
	ch.unused = ch.unused[:len(ch.unused)-1]
	c.slot, sl.cmd = sl, c
	ch.limit--
	ch.s.stats.commands.Add(1)
	ch.send(sl)
}

// send puts the unit of a slot into the outbox.
func (ch *channel) send(sl *slot) {
	ch.s.seq++
	sl.seq, sl.sending = ch.s.seq, true
	sl.sgl[0] = rdma.SGE{Region: ch.sendMem, Off: uint64(sl.off), Len: uint64(len(sl.iu))}
	ch.outbox = append(ch.outbox, rdma.Work{ID: uint64(sl.index), Op: rdma.OpSend, Flags: rdma.Signaled, SGL: sl.sgl[:]})
}

// post hands the outbox to the queue pair. What a full queue refuses stays for the next time.
func (ch *channel) post() {
	if len(ch.outbox) == 0 {
		return
	}
	n, err := ch.qp.PostSend(ch.outbox)
	if err != nil && !isFull(err) {
		ch.s.stop(ch.s.fail("post", err))
		return
	}
	rest := copy(ch.outbox, ch.outbox[n:])
	ch.outbox = ch.outbox[:rest]
}

// close destroys the queue pair, and then frees the memory it used.
func (ch *channel) close() {
	ch.up = false
	if err := ch.qp.Close(); err != nil {
		ch.s.log.Warn("closing a queue pair failed", "channel", ch.index, "error", err)
	}
	for _, r := range []rdma.Region{ch.sendMem, ch.recvMem, ch.tableMem} {
		if r == nil {
			continue
		}
		if err := r.Close(); err != nil {
			ch.s.log.Warn("closing a region failed", "channel", ch.index, "error", err)
		}
	}
}

// failAll ends what waits on the channel.
func (ch *channel) failAll(err error) {
	for i := range ch.slots {
		sl := &ch.slots[i]
		if c := sl.cmd; c != nil {
			sl.cmd = nil
			c.fail(err)
		}
		if t := sl.task; t != nil {
			sl.task = nil
			t.done(0, err)
		}
	}
	for ch.waiting.len() > 0 {
		ch.waiting.pop().fail(err)
	}
	for ch.tasks.len() > 0 {
		ch.tasks.pop().done(0, err)
	}
}
