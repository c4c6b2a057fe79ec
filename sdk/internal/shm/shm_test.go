package shm

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newMem(t *testing.T, size int, o Options) *Mem {
	t.Helper()
	m, err := Create("test", size, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMemoryIsSharedWithAPeerThatMapsIt(t *testing.T) {
	m := newMem(t, 8192, Options{})
	p, err := Map(dup(t, m.FD()), 8192, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	copy(m.Bytes()[4090:], "across the page")
	if !bytes.HasPrefix(p.Bytes()[4090:], []byte("across the page")) {
		t.Error("the peer does not see the bytes")
	}
}

func TestPeerCannotTruncateGrowOrUnseal(t *testing.T) {
	m := newMem(t, 8192, Options{})
	for _, size := range []int64{0, 4096, 16384} {
		if err := unix.Ftruncate(m.FD(), size); !errors.Is(err, unix.EPERM) {
			t.Errorf("ftruncate to %d: %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(m.FD()), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("adding a seal: %v, want EPERM", err)
	}
}

func TestPeerReadOnlyMemoryCannotBeMappedForWriting(t *testing.T) {
	m := newMem(t, 4096, Options{PeerReadOnly: true})
	if p, err := Map(dup(t, m.FD()), 4096, true); err == nil {
		p.Close()
		t.Fatal("a peer mapped it writable")
	}
	p, err := Map(dup(t, m.FD()), 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m.Bytes()[7] = 9
	if p.Bytes()[7] != 9 {
		t.Error("the creator's store is not seen")
	}
	if _, err := unix.Pwrite(m.FD(), []byte{1}, 0); err == nil {
		t.Error("write(2) passed the seal")
	}
}

func TestMapRefusesAWrongSizeAndAnUnsealedMemory(t *testing.T) {
	m := newMem(t, 8192, Options{})
	for _, size := range []int{0, -1, 4096, 12288} {
		if p, err := Map(dup(t, m.FD()), size, false); !errors.Is(err, ErrSize) {
			t.Errorf("size %d: %v %v, want ErrSize", size, p, err)
		}
	}
	fd, err := memfd("open", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(fd, 4096, false); err == nil {
		t.Error("an unsealed memory was mapped")
	}
}

func TestCreateRefusesImpossibleSizes(t *testing.T) {
	for _, size := range []int{0, -1, 1 << 60} {
		if m, err := Create("test", size, Options{}); err == nil {
			m.Close()
			t.Errorf("size %d was made", size)
		}
	}
}

func TestHugeMemoryFallsBackToOrdinaryPages(t *testing.T) {
	m := newMem(t, 4096, Options{Huge: true})
	if want := 4096; !m.Huge() && len(m.Bytes()) != want {
		t.Errorf("%d bytes, want %d", len(m.Bytes()), want)
	}
	if m.Huge() && len(m.Bytes()) != hugePage {
		t.Errorf("%d bytes of huge memory, want one page", len(m.Bytes()))
	}
}

func TestWaiterWakesOnceForARingAfterSleep(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w, err := NewWaiter(e)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // never read, and yet every ring is seen
		slept := false
		if err := w.Wait(func() bool { slept = true; e.Ring(); return true }); err != nil || !slept {
			t.Fatalf("round %d: slept %v, %v", i, slept, err)
		}
	}
	if err := w.Wait(func() bool { return false }); err != nil {
		t.Errorf("work at hand: %v", err)
	}
	err = w.Wait(func() bool { go w.Close(); return true })
	if err == nil {
		t.Error("closing did not end the wait")
	}
}

func TestWakeEndsAWaitOfThisProcess(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w, err := NewWaiter(e)
	if err != nil {
		t.Fatal(err)
	}
	asleep, awake := make(chan struct{}), make(chan error)
	go func() {
		awake <- w.Wait(func() bool { close(asleep); return true })
	}()
	<-asleep
	w.Wake()
	if err := <-awake; err != nil {
		t.Error(err)
	}
	w.Close()
	w.Wake() // after the end it does nothing
}

func TestDrainNeverBlocksWhateverThePeerDidToTheFlags(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := unix.SetNonblock(e.FD(), false); err != nil {
		t.Fatal(err)
	}
	e.Drain() // a plain read would block here for ever
	e.Ring()
	e.Drain()
	p := []unix.PollFd{{Fd: int32(e.FD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 0); n != 0 || err != nil {
		t.Errorf("readable after Drain: %d, %v", n, err)
	}
}

// A plugin can fill the counter of a doorbell that it shares. The host must notice and free itself.
func TestBlockedRingIsSeenAndFreedByDrain(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := unix.SetNonblock(e.FD(), false); err != nil {
		t.Fatal(err)
	}
	full := [8]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if _, err := unix.Write(e.FD(), full[:]); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { e.Ring(); close(done) }()
	deadline := time.Now().Add(10 * time.Second)
	var seen uint64
	for stuck := false; !stuck; seen, stuck = e.Stuck(seen) {
		if time.Now().After(deadline) {
			t.Fatal("the blocked ring is not seen")
		}
		time.Sleep(100 * time.Microsecond)
	}
	e.Drain()
	<-done
	if _, stuck := e.Stuck(seen); stuck {
		t.Error("still stuck after the ring has ended")
	}
}

func TestChannelCarriesDescriptorsAndTellsTheEnd(t *testing.T) {
	near, f, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	far, err := OpenChannel(f)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	m := newMem(t, 4096, Options{})
	soon := time.Now().Add(5 * time.Second)
	if err := near.Send(7, soon, m.FD(), m.FD()); err != nil {
		t.Fatal(err)
	}
	if err := near.Send(8, soon); err != nil {
		t.Fatal(err)
	}
	token, fds, err := far.Receive()
	if err != nil || token != 7 || len(fds) != 2 {
		t.Fatalf("token %d, descriptors %v, %v", token, fds, err)
	}
	p, err := Map(fds[0], 4096, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	CloseAll(fds[1:])
	if token, fds, err := far.Receive(); err != nil || token != 8 || len(fds) != 0 {
		t.Errorf("token %d, descriptors %v, %v", token, fds, err)
	}
	near.Close()
	if _, _, err := far.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the peer's end: %v, want EOF", err)
	}
}

func TestChannelRefusesAMalformedMessage(t *testing.T) {
	for name, b := range map[string][]byte{
		"short":         make([]byte, 15),
		"long":          make([]byte, 17),
		"wrong count":   {8: 1, 15: 0},
		"one too large": {11: 0x80, 15: 0},
	} {
		near, f, err := NewChannel()
		if err != nil {
			t.Fatal(err)
		}
		far, err := OpenChannel(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := near.c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, _, err := far.Receive(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		near.Close()
		far.Close()
	}
	near, f, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer near.Close()
	if err := near.Send(1, time.Now().Add(time.Second), make([]int, maxDescriptors+1)...); err == nil {
		t.Error("nine descriptors were sent")
	}
}

func TestRingThatBlocksIsFreedWhenThePeerIsGone(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	full := [8]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for range 2 {
		if _, err := unix.Write(e.FD(), full[:]); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(e.FD(), false); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { e.Ring(); close(done) }()
		for e.rings.Load()&1 == 0 {
			runtime.Gosched()
		}
		e.Free()
		<-done
		e.Drain()
	}
	if _, err := unix.Write(e.FD(), full[:]); err != nil {
		t.Fatal(err)
	}
	e.Ring() // does not block
}

// A busy machine can keep a ring's thread from going on for any time. That is nobody's fault.
func TestRingWhoseThreadHasNoProcessorIsNotStuck(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Ring()
	e.rings.Add(1) // a ring has begun
	seen, _ := e.Stuck(0)
	if _, stuck := e.Stuck(seen); stuck {
		t.Error("stuck although the counter has room")
	}
}
