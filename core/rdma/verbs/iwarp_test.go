//go:build verbs

package verbs

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// What iWARP is to the provider, tested with devices and events that are made up.

// Rights of libibverbs (enum ibv_access_flags).
const (
	localWrite  = 1
	remoteWrite = 2
	remoteRead  = 4
)

func TestSinkOfAReadIsRemotelyWritableOnIWARPAlone(t *testing.T) {
	for _, row := range []struct {
		access    rdma.Access
		ib, iwarp int
	}{
		{0, localWrite, localWrite},
		{rdma.ReadSink, localWrite, localWrite | remoteWrite},
		{rdma.RemoteRead, localWrite | remoteRead, localWrite | remoteRead},
		{rdma.RemoteRead | rdma.ReadSink, localWrite | remoteRead, localWrite | remoteRead | remoteWrite},
		{rdma.RemoteWrite, localWrite | remoteWrite, localWrite | remoteWrite},
		{rdma.RemoteRead | rdma.RemoteWrite, localWrite | remoteRead | remoteWrite, localWrite | remoteRead | remoteWrite},
	} {
		for _, d := range []struct {
			iwarp bool
			want  int
		}{{false, row.ib}, {true, row.iwarp}} {
			if got := int((&Device{iwarp: d.iwarp}).rights(row.access)); got != d.want {
				t.Errorf("access %03b, iWARP %v: rights %03b, want %03b", row.access, d.iwarp, got, d.want)
			}
		}
	}
	if _, err := (&Device{}).Register(nil, 8); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("an unknown right: %v", err)
	}
}

// eventsOf gives a queue pair in a state an event, and returns the completions that come of it.
func eventsOf(q *qp, ev *cmEvent) (list []rdma.Completion) {
	q.cq = &cq{}
	q.dev = &Device{log: hclog.NewNullLogger(), iwarp: true}
	q.id = &cmID{m: &manager{}}
	q.event(ev)
	for _, l := range q.cq.late {
		list = append(list, l.c)
	}
	return list
}

// With iWARP the active side is told that it is established where others are told of a reply.
func TestActiveSideIsEstablishedWithoutAReply(t *testing.T) {
	reply := []byte("reply")
	for s, want := range map[state][]byte{accepted: nil, connecting: reply} {
		q := &qp{state: s}
		list := eventsOf(q, &cmEvent{kind: eventEstablished, data: reply})
		if len(list) != 1 || list[0].Event != rdma.EventEstablished || !bytes.Equal(list[0].Data, want) || q.state != connected {
			t.Errorf("state %d: %+v, now in %d", s, list, q.state)
		}
	}
	for _, s := range []state{idle, resolving, connected, ending, ended, closed} {
		q := &qp{state: s}
		if list := eventsOf(q, &cmEvent{kind: eventEstablished, data: reply}); len(list) != 0 || q.state != s {
			t.Errorf("state %d: %+v, now in %d", s, list, q.state)
		}
	}
}

// iWARP has no reasons: what the connection manager tells is an error number.
func TestRejectionWithoutAReasonIsTheConsumers(t *testing.T) {
	for status, want := range map[int]rdma.RejectReason{
		-int(unix.ECONNRESET): rdma.RejectConsumer, -int(unix.ECONNREFUSED): rdma.RejectConsumer, 0: rdma.RejectConsumer,
		28: rdma.RejectConsumer, 8: rdma.RejectInvalidService,
	} {
		if got := reasonOf(status); got != want {
			t.Errorf("status %d: reason %d, want %d", status, got, want)
		}
	}
}

func TestRequestHasTheSameRoomOnEveryTransport(t *testing.T) {
	long := bytes.Repeat([]byte{7}, 200)
	for _, n := range []int{0, 1, privateIP - 1, privateIP, privateIP + 1, 200} {
		got := (&Device{iwarp: true}).requestData(long[:n])
		want := make([]byte, privateIP)
		copy(want, long[:n])
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes became %x", n, got)
		}
		if got := (&Device{}).requestData(long[:n]); !bytes.Equal(got, long[:n]) {
			t.Errorf("without iWARP %d bytes became %x", n, got)
		}
	}
}

func TestIWARPHasNoDatagrams(t *testing.T) {
	d := &Device{iwarp: true, ports: 1, cfg: &Config{}}
	if _, err := d.OpenMAD(1, rdma.MADConfig{}); !errors.Is(err, rdma.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// alloc makes memory of C's type without its name, which tests cannot have.
func alloc[T any](p **T) { *p = new(T) }

// sentQueue is a queue pair whose send queue holds work that the device has: IDs from 1, those of loud signaled.
func sentQueue(iwarp bool, ops []rdma.Op, loud ...uint64) *qp {
	q := &qp{cq: &cq{}, dev: &Device{iwarp: iwarp, log: hclog.NewNullLogger()}, state: ending, sends: make([]sent, 8)}
	alloc(&q.c)
	s := &q.c.sq
	s.mask = 7
	s.done = 1<<32 - 3 // the counters wrap
	s.handed = s.done
	for i, op := range ops {
		id := uint64(i + 1)
		q.sends[s.handed&s.mask] = sent{id: id, op: op, signaled: slices.Contains(loud, id)}
		s.handed++
	}
	s.tail = s.handed
	return q
}

func TestSendQueueCompletesInTheOrderOfPosting(t *testing.T) {
	read, send, write := rdma.OpRead, rdma.OpSend, rdma.OpWrite
	ops := []rdma.Op{read, send, write, read, send}
	type done struct {
		id     uint64
		status rdma.Status
	}
	for _, row := range []struct {
		name  string
		iwarp bool
		loud  []uint64
		come  []done
		want  [][]done // after each
	}{
		{"in order", false, []uint64{1, 2, 5}, []done{{1, 0}, {2, 0}, {5, 0}}, [][]done{{{1, 0}}, {{2, 0}}, {{5, 0}}}},
		{"iWARP, in order", true, []uint64{1, 2, 5}, []done{{1, 0}, {2, 0}, {4, 0}, {5, 0}}, [][]done{{{1, 0}}, {{2, 0}}, nil, {{5, 0}}}},
		{"iWARP, READs last", true, []uint64{1, 2, 5}, []done{{2, 0}, {5, 0}, {1, 0}, {4, 0}}, [][]done{nil, nil, {{1, 0}, {2, 0}}, {{5, 0}}}},
		{"iWARP, nobody asked about a READ", true, []uint64{5}, []done{{5, 0}, {1, 0}, {4, 0}}, [][]done{nil, nil, {{5, 0}}}},
		{"a failure", false, []uint64{5}, []done{{2, rdma.StatusRemoteAccess}, {5, rdma.StatusFlushed}},
			[][]done{{{2, rdma.StatusRemoteAccess}}, {{3, rdma.StatusFlushed}, {4, rdma.StatusFlushed}, {5, rdma.StatusFlushed}}}},
		{"iWARP, a failure", true, []uint64{1, 5}, []done{{2, 0}, {1, rdma.StatusFlushed}, {4, rdma.StatusFlushed}, {5, rdma.StatusFlushed}},
			[][]done{nil, {{1, rdma.StatusFlushed}, {2, rdma.StatusFlushed}}, {{3, rdma.StatusFlushed}, {4, rdma.StatusFlushed}}, {{5, rdma.StatusFlushed}}}},
		{"disorder", true, []uint64{1, 2}, []done{{6, 0}, {1, 0}, {1, 0}}, [][]done{nil, {{1, 0}}, nil}},
	} {
		q := sentQueue(row.iwarp, ops, row.loud...)
		first := uint32(q.c.sq.done)
		for i, c := range row.come {
			q.cq.late = nil
			q.sentUpTo((first+uint32(c.id)-1)&7, c.status)
			q.failed = q.failed || c.status != rdma.StatusOK
			var got []done
			for _, l := range q.cq.late {
				got = append(got, done{l.c.ID, l.c.Status})
			}
			if !slices.Equal(got, row.want[i]) {
				t.Errorf("%s: completion of %d told %v, want %v", row.name, c.id, got, row.want[i])
			}
		}
	}
}
