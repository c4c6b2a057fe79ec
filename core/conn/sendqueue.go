package conn

import (
	"errors"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// kind is what a completion belongs to: the top byte of a Work's ID. The rest is a slot or a receive buffer.
type kind uint8

const (
	kindRecv    kind = iota + 1
	kindPart         // a piece of data with more behind it
	kindTable        // the last RDMA READ of an indirect table
	kindFetched      // the last RDMA READ of a fetch
	kindRespond
	kindAsk
	kindLogout
	kindProbe
)

func workID(k kind, n uint32) uint64 { return uint64(k)<<56 | uint64(n) }

func splitID(id uint64) (kind, uint32) { return kind(id >> 56), uint32(id) }

const (
	// stageSize is how many work requests are handed over at once.
	stageSize = 64
	// pieceSize is the longest RDMA READ or WRITE, so that one command's data does not hold up a
	// queue for long, and progress shows.
	pieceSize = 1 << 20
)

// sendQueue holds the actions of a channel that need its send queue, and turns them into work as far as there is room: in
// one lane, in order, data-in, receives and units; in another what is fetched, which a bound of its own keeps from standing
// in the way of the others. Nothing that waits here is ever lost but by clear.
type sendQueue struct {
	lane
	fetches lane

	stage [stageSize]rdma.Work
	sges  [stageSize]rdma.SGE
	n     int // staged
	sent  int // of those, handed over

	depth  int
	used   int   // work requests handed over and not known to be done
	run    cover // of those, since the last signaled one
	covers coverRing

	pending cover  // staged, or handed over and not known to be done
	mute    uint32 // bytes of RDMA READs staged or handed over since the last signaled work request
}

// lane is a queue of actions of which the first may have been turned into work in part.
type lane struct {
	todo  actionRing
	place cursor // in the action at the head of todo
}

// next goes on with the next action.
func (l *lane) next() {
	l.todo.pop()
	l.place = cursor{}
}

func (l *lane) clear() {
	l.todo.clear()
	l.place = cursor{}
}

// cursor is how far the data of an action has been turned into work.
type cursor struct {
	done uint64 // bytes
	desc int    // the descriptor, and how far into it
	off  uint64
}

func newSendQueue(depth, actions, fetches int) sendQueue {
	return sendQueue{
		lane: lane{todo: newActionRing(actions)}, fetches: lane{todo: newActionRing(fetches)},
		depth: depth, covers: newCoverRing(depth),
	}
}

func (q *sendQueue) push(a channel.Action) { q.todo.push(a) }

// clear forgets what has not been posted.
func (q *sendQueue) clear() {
	q.lane.clear()
	q.fetches.clear()
	for _, w := range q.stage[q.sent:q.n] {
		q.pending = q.pending.less(coverOf(&w))
	}
	q.n, q.sent, q.mute = 0, 0, q.run.bytes
}

// room tells whether one more work request can be staged.
func (q *sendQueue) room() bool { return q.n < stageSize && int(q.pending.work) < q.depth }

func (q *sendQueue) staged() int { return q.n - q.sent }

// add stages w, whose SGL is sge alone, or nothing if n is 0.
func (q *sendQueue) add(w rdma.Work, sge rdma.SGE) {
	if sge.Len > 0 {
		q.sges[q.n] = sge
		w.SGL = q.sges[q.n : q.n+1 : q.n+1]
	}
	q.stage[q.n] = w
	q.n++
	k := coverOf(&w)
	q.pending = q.pending.plus(k)
	q.mute += k.bytes
	if w.Flags&rdma.Signaled != 0 {
		q.mute = 0
	}
}

// shouldSignal tells whether a piece of n bytes should be signaled so that the queue, and what is fetched, can be seen to move.
func (q *sendQueue) shouldSignal(op rdma.Op, n uint64) bool {
	return int(q.run.work)+q.staged()+1 >= max(q.depth/4, 1) || op == rdma.OpRead && uint64(q.mute)+n >= fetchAhead/4
}

// post hands over what is staged. What does not fit stays staged.
func (q *sendQueue) post(qp rdma.QP) error {
	if q.staged() == 0 {
		return nil
	}
	n, err := qp.PostSend(q.stage[q.sent:q.n])
	for _, w := range q.stage[q.sent : q.sent+n] {
		q.used++
		q.run = q.run.plus(coverOf(&w))
		if w.Flags&rdma.Signaled != 0 {
			q.covers.push(q.run)
			q.run = cover{}
		}
	}
	q.sent += n
	if q.sent == q.n {
		q.n, q.sent = 0, 0
		return nil
	}
	if errors.Is(err, rdma.ErrFull) && q.covers.n > 0 {
		return nil // a completion will make room
	}
	return err
}

// completed accounts for the completion of a signaled work request.
func (q *sendQueue) completed() {
	k := q.covers.pop()
	q.used -= int(k.work)
	q.pending = q.pending.less(k)
}

// actionRing is a queue of actions that grows when it must.
type actionRing struct {
	buf     []channel.Action
	head, n int
}

func newActionRing(size int) actionRing { return actionRing{buf: make([]channel.Action, size)} }

func (r *actionRing) push(a channel.Action) {
	if r.n == len(r.buf) {
		grown := make([]channel.Action, 2*len(r.buf)+1)
		for i := range r.n {
			grown[i] = r.buf[(r.head+i)%len(r.buf)]
		}
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)%len(r.buf)] = a
	r.n++
}

func (r *actionRing) first() *channel.Action { return &r.buf[r.head] }

func (r *actionRing) pop() {
	r.head = (r.head + 1) % len(r.buf)
	r.n--
}

func (r *actionRing) clear() { r.head, r.n = 0, 0 }

func (r *actionRing) at(i int) *channel.Action { return &r.buf[(r.head+i)%len(r.buf)] }

// remove takes the action at i out.
func (r *actionRing) remove(i int) {
	for ; i > 0; i-- {
		*r.at(i) = *r.at(i - 1)
	}
	r.pop()
}
