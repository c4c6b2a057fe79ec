package lu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Which task may start (SAM-5 8.6), by what is there already:
//
//	arrives        | nothing | simple active | ordered active | something held
//	---------------+---------+---------------+----------------+---------------
//	simple         | starts  | starts        | held           | held
//	ordered        | starts  | held          | held           | held
//	head of queue  | starts  | starts        | starts         | starts
//
// A held task starts, oldest first, when no ordered task is active and, if it is ordered itself, nothing is.

// begin starts a READ of the attribute whose buffer the test gives later.
func (r *rig) begin(attr scsi.Attr) *cmd {
	c := r.make(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 1}, 0), nil, 512)
	c.Attr = uint8(attr)
	r.u.Start(&c.Task)
	return c
}

// end lets a task that has started run to its end.
func (r *rig) end(c *cmd) {
	r.t.Helper()
	r.u.DataReady(&c.Task)
	r.turn()
	if c.dones != 1 {
		r.t.Fatal("task did not end")
	}
}

func started(cmds ...*cmd) string {
	s := ""
	for _, c := range cmds {
		if c.asked > 0 {
			s += "x"
		} else {
			s += "-"
		}
	}
	return s
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("started %q, want %q", got, want)
	}
}

func TestOrderedTasksAreABarrier(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	s1, s2 := r.begin(scsi.AttrSimple), r.begin(scsi.AttrSimple)
	o1 := r.begin(scsi.AttrOrdered)
	s3 := r.begin(scsi.AttrSimple)
	o2 := r.begin(scsi.AttrOrdered)
	h := r.begin(scsi.AttrHeadOfQueue)
	s4 := r.begin(scsi.AttrSimple)
	all := []*cmd{s1, s2, o1, s3, o2, h, s4}
	want(t, started(all...), "xx---x-")
	r.end(s2)
	r.end(h)
	want(t, started(all...), "xx---x-")
	r.end(s1)
	want(t, started(all...), "xxx--x-")
	r.end(o1)
	want(t, started(all...), "xxxx-x-")
	r.end(s3)
	want(t, started(all...), "xxxxxx-")
	r.end(o2)
	want(t, started(all...), "xxxxxxx")
	r.end(s4)
	want(t, started(r.begin(scsi.AttrOrdered)), "x")
}

func TestSimpleTasksDoNotWaitForEachOther(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	var cmds []*cmd
	for range 20 {
		cmds = append(cmds, r.begin(scsi.AttrSimple))
	}
	for i := len(cmds) - 1; i >= 0; i-- {
		if cmds[i].asked == 0 {
			t.Fatal("held")
		}
		r.end(cmds[i])
	}
}

func TestHeldTasksThatEndAtOnceLetTheNextIn(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	first := r.begin(scsi.AttrSimple)
	var held []*cmd
	for range 1000 {
		c := r.make(scsi.AppendTestUnitReady(nil), nil, 0)
		c.Attr = uint8(scsi.AttrOrdered)
		r.u.Start(&c.Task)
		held = append(held, c)
	}
	r.end(first)
	for i, c := range held {
		if c.dones != 1 || r.order[i+2] != c { // the greeting and first were before
			t.Fatalf("task %d: done %d times, or out of order", i, c.dones)
		}
	}
}

func TestOtherTaskAttributesAreRefused(t *testing.T) {
	r := diskRig(t)
	for attr := 3; attr < 256; attr++ {
		c := r.make(scsi.AppendTestUnitReady(nil), nil, 0)
		c.Attr = uint8(attr)
		r.u.Start(&c.Task)
		r.wantSense(c, scsi.InvalidMessage)
	}
	r.wantGood(r.run(scsi.AppendTestUnitReady(nil), nil, 0))
}

// What Abort does, by where the task is.
//
//	where                        | Abort
//	-----------------------------+--------------------------------------------------
//	not started, done            | nothing
//	held for an ordered task     | Done at once
//	waits for the host's buffer  | Done at once; DataReady then does nothing
//	in the guard's own queue     | Done at once
//	with the backend             | Done when the backend is done, whatever it says

func (r *rig) wantAborted(c *cmd, dones int) {
	r.t.Helper()
	if c.dones != dones {
		r.t.Fatalf("done %d times, want %d", c.dones, dones)
	}
	if dones == 1 && (!c.Aborted || c.Status != scsi.StatusTaskAborted || c.Sense != nil || c.InUsed+c.OutUsed+c.Wanted != 0) {
		r.t.Fatalf("aborted %v, %v, sense % x, %d, %d, %d", c.Aborted, c.Status, c.Sense, c.InUsed, c.OutUsed, c.Wanted)
	}
}

func TestAbortOfATaskThatIsNotThereDoesNothing(t *testing.T) {
	r := diskRig(t)
	c := r.make(scsi.AppendTestUnitReady(nil), nil, 0)
	r.u.Abort(&c.Task)
	r.u.Start(&c.Task)
	r.u.Abort(&c.Task)
	r.u.DataReady(&c.Task)
	r.wantGood(c)
	if c.dones != 1 || c.Aborted {
		t.Errorf("done %d times, aborted %v", c.dones, c.Aborted)
	}
}

func TestAbortWhileTheHostHasTheTask(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	for _, c := range []*cmd{
		r.begin(scsi.AttrSimple),
		r.start(scsi.AppendTransfer10(nil, scsi.OpWrite10, scsi.Extent{Blocks: 1}, 0), make([]byte, 512), 0),
		r.start(scsi.AppendInquiry(nil, 36), nil, 36),
	} {
		r.u.Abort(&c.Task)
		r.wantAborted(c, 1)
		r.u.Abort(&c.Task)
		r.u.DataReady(&c.Task)
		r.turn()
	}
	if s := r.g.Stats(); s.Reads+s.Writes != 0 {
		t.Errorf("the store was asked: %+v", s)
	}
	if got := r.dev.Stats().Aborted; got != 3 {
		t.Errorf("%d aborted", got)
	}
}

func TestAbortOfHeldTasks(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	first := r.begin(scsi.AttrOrdered)
	held := []*cmd{r.begin(scsi.AttrSimple), r.begin(scsi.AttrOrdered), r.begin(scsi.AttrSimple), r.begin(scsi.AttrSimple)}
	for _, i := range []int{1, 3, 0} { // the middle, the end, the beginning
		r.u.Abort(&held[i].Task)
		r.wantAborted(held[i], 1)
	}
	last := r.begin(scsi.AttrSimple)
	r.end(first)
	want(t, started(append(held, last)...), "--x-x")
	r.end(held[2])
	r.end(last)
}

func TestAbortOfTheBarrierLetsTheNextIn(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	o, s := r.begin(scsi.AttrOrdered), r.begin(scsi.AttrSimple)
	want(t, started(s), "-")
	r.u.Abort(&o.Task)
	want(t, started(s), "x")
	r.end(s)
}

func TestAbortInTheGuardsQueueNeedsNoBackend(t *testing.T) {
	r := diskRig(t)
	r.g.Detach(epoch)
	c := r.begin(scsi.AttrSimple)
	r.turn()
	r.wantAborted(c, 0)
	r.u.Abort(&c.Task)
	r.wantAborted(c, 1)
	if err := r.g.Attach(r.b); err != nil {
		t.Fatal(err)
	}
	r.turn()
}

func TestAbortWaitsForTheBackend(t *testing.T) {
	for _, code := range []backstore.Code{backstore.CodeOK, backstore.CodeIO} {
		r := diskRig(t)
		r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true, Code: code} }
		c := r.begin(scsi.AttrSimple)
		r.turn()
		r.u.Abort(&c.Task)
		r.turn()
		r.wantAborted(c, 0)
		r.b.Release()
		r.turn()
		r.wantAborted(c, 1)
	}
}

func TestAnAbortedTaskAsksNothingMoreOfTheStore(t *testing.T) {
	info := testInfo()
	info.FUA = false
	r := greeted(t, testConfig(), info)
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	c := r.start(scsi.AppendTransfer10(nil, scsi.OpWrite10, scsi.Extent{Blocks: 1}, scsi.FlagFUA), make([]byte, 512), 0)
	r.turn()
	r.u.Abort(&c.Task)
	r.b.Release()
	r.turn()
	r.wantAborted(c, 1)
	if s := r.g.Stats(); s.Flushes != 0 || s.Flying != 0 {
		t.Errorf("%+v", s)
	}
}

func TestATaskCanBeUsedAgain(t *testing.T) {
	r := diskRig(t)
	c := r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{LBA: testBlocks, Blocks: 1}, 0), nil, 512)
	r.wantSense(c, scsi.LBAOutOfRange)
	c.CDB[2], c.CDB[3], c.CDB[4], c.CDB[5] = 0, 0, 0, 9
	c.dones, c.asked = 0, 0
	r.u.Start(&c.Task)
	r.turn()
	r.wantGood(c)
	if c.InUsed != 512 || c.Wanted != 512 || c.Aborted {
		t.Errorf("%+v", c.Task)
	}
}

// An outage: what was with the old backend is done by the new one, and each task ends once.
func TestTasksSurviveTheReplacementOfTheBackend(t *testing.T) {
	r := diskRig(t)
	r.fill()
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Skip: true, Hold: true} }
	var cmds []*cmd
	for range 10 {
		cmds = append(cmds, r.begin(scsi.AttrSimple))
	}
	r.turn()
	r.g.Detach(epoch)
	r.b.Plan = nil
	if err := r.g.Attach(r.b); err != nil {
		t.Fatal(err)
	}
	r.turn()
	for _, c := range cmds {
		r.wantGood(c)
		wantBytes(t, c.in, r.mem.Bytes()[:512])
	}
}

// Random tasks, buffers given late, aborts, held results: each task ends exactly once, and ordered tasks overlap with
// nothing that came before or after them.
func TestEachTaskEndsExactlyOnce(t *testing.T) {
	for seed := range uint64(60) {
		r := diskRig(t)
		r.manual = true
		rng := rand.New(rand.NewPCG(seed, 9))
		r.b.Plan = func(*backstore.Request) storetest.Fault {
			return storetest.Fault{Hold: rng.IntN(3) == 0, Code: backstore.Code(rng.IntN(4) / 3)}
		}
		var cmds []*cmd
		for range 150 {
			switch rng.IntN(6) {
			case 0, 1:
				cmds = append(cmds, r.begin(scsi.Attr(rng.IntN(3))))
			case 2:
				if len(cmds) > 0 {
					r.u.Abort(&cmds[rng.IntN(len(cmds))].Task)
				}
			case 3:
				r.b.Release()
			default:
				if len(cmds) > 0 {
					r.u.DataReady(&cmds[rng.IntN(len(cmds))].Task)
				}
				r.turn()
			}
			checkOrder(t, seed, cmds)
		}
		for range len(cmds) + 1 {
			if r.u.queue.active == 0 {
				break
			}
			for _, c := range cmds {
				r.u.DataReady(&c.Task)
			}
			r.b.Release()
			r.turn()
		}
		for i, c := range cmds {
			if c.dones != 1 {
				t.Fatalf("seed %d: task %d of attribute %d done %d times", seed, i, c.Attr, c.dones)
			}
		}
		if r.u.queue.active != 0 || r.u.queue.head != nil {
			t.Fatalf("seed %d: %s", seed, fmt.Sprint(r.u.queue))
		}
	}
}

// checkOrder: no ordered task is active beside an older one, and no simple one beside an older ordered one.
func checkOrder(t *testing.T, seed uint64, cmds []*cmd) {
	t.Helper()
	olderActive, olderOrdered := false, false
	for i, c := range cmds {
		active := c.asked > 0 && c.dones == 0
		waits := c.dones == 0
		attr := scsi.Attr(c.Attr)
		if active && attr == scsi.AttrOrdered && olderActive || active && attr == scsi.AttrSimple && olderOrdered {
			t.Fatalf("seed %d: task %d of attribute %d started too early", seed, i, attr)
		}
		olderActive = olderActive || waits && attr != scsi.AttrHeadOfQueue
		olderOrdered = olderOrdered || waits && attr == scsi.AttrOrdered
	}
}
