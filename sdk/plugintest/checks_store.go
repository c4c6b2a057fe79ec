package plugintest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// ofStores are the checks of a backstore's process.
var ofStores = []check{
	{"a store that another process has is not opened", checkFence},
	{"after kill -9 the store can be opened again", checkReopenAfterKill},
	{"what was flushed is there after kill -9", checkKill},
	{"requests that kill -9 interrupted are answered by the next process", checkResume},
	{"a queue lets go of its data while requests are under way", checkDetach},
	{"opening and closing a hundred times leaves nothing behind", checkLeaks},
}

// pattern fills p with numbers that tell the place and the round.
func pattern(p []byte, off int64, round uint64) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], uint64(off)+uint64(i)^round<<48)
	}
}

func holds(p []byte, off int64, round uint64) bool {
	want := make([]byte, len(p))
	pattern(want, off, round)
	return bytes.Equal(p, want)
}

func (r *run) persistent() {
	r.Helper()
	if r.o.Volatile {
		r.Skip("the store is volatile")
	}
}

func checkFence(r *run) {
	r.persistent()
	config := r.config(r.TB)
	first, second := r.start(r.arena()), r.start(r.arena())
	st, err := first.Open(r.within(startTime), config)
	if err != nil {
		r.Fatal(err)
	}
	if other, err := second.Open(r.within(2*time.Second), config); err == nil {
		_ = other.Close(r.within(startTime))
		r.Errorf("two processes have the store open: an old process's writes could land after a new one's")
	}
	second.Kill() // it may still be at it
	<-second.Dead()
	if err := st.Close(r.within(startTime)); err != nil {
		r.Fatalf("closing the first: %v", err)
	}
	r.open(r.start(r.arena()), config)
}

func checkReopenAfterKill(r *run) {
	config := r.config(r.TB)
	p := r.start(r.arena())
	if _, err := p.Open(r.within(startTime), config); err != nil {
		r.Fatal(err)
	}
	p.Kill()
	<-p.Dead()
	r.open(r.start(r.arena()), config)
}

// span is how many bytes a check moves at once.
func span(i backstore.Info) int {
	n := 64 << 10
	if i.MaxTransfer != 0 {
		n = min(n, int(i.MaxTransfer))
	}
	return n
}

func checkKill(r *run) {
	r.persistent()
	config, a := r.config(r.TB), r.arena()
	p := r.start(a)
	s, err := openRemote(r.within(startTime), p, config)
	if err != nil {
		r.Fatal(err)
	}
	size := int64(s.info.Blocks) * int64(s.info.BlockSize)
	data := make([]byte, span(s.info))
	places := []int64{0, size / 2 / 4096 * 4096, size - int64(len(data))}
	for _, off := range places {
		pattern(data, off, 1)
		if err := s.Write(r.ctx, data, off, 0); err != nil {
			r.Errorf("Write: %v", err)
		}
	}
	if err := s.Flush(r.ctx); err != nil {
		r.Errorf("Flush: %v", err)
	}
	p.Kill()
	<-p.Dead()
	_ = s.Close() // it says that the process has ended
	s = r.open(r.start(a), config)
	for _, off := range places {
		clear(data)
		if err := s.Read(r.ctx, data, off); err != nil {
			r.Errorf("Read: %v", err)
		} else if !holds(data, off, 1) {
			r.Errorf("at %d is not what was written and flushed before kill -9", off)
		}
	}
}

// checkResume kills the process under a full queue and gives the queue to the next one.
func checkResume(r *run) {
	config, a := r.config(r.TB), r.arena()
	p := r.start(a)
	st, err := p.Open(r.within(startTime), config)
	if err != nil {
		r.Fatal(err)
	}
	q, err := st.NewQueue(r.within(startTime), host.QueueOptions{Entries: depth, Hold: time.Hour})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { q.Close() })
	reqs := r.writes(st.Info(), a.Bytes())
	q.Submit(reqs)
	q.Flush()
	p.Kill()
	<-p.Dead()
	next := r.start(a)
	st, err = next.Open(r.within(startTime), config)
	if err == nil {
		err = st.Attach(r.within(startTime), q)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.collect(q, len(reqs), next)
	for i := range reqs {
		reqs[i].Op, reqs[i].Flags = backstore.OpRead, 0
		clear(reqs[i].Data)
	}
	q.Submit(reqs)
	q.Flush()
	r.collect(q, len(reqs), next)
	for i := range reqs {
		if !holds(reqs[i].Data, reqs[i].Off, 3) {
			r.Errorf("at %d is not what was written across kill -9", reqs[i].Off)
		}
	}
}

// writes are as many requests as a queue takes, each with blocks and memory of its own.
func (r *run) writes(i backstore.Info, memory []byte) []backstore.Request {
	size := int64(i.Blocks) * int64(i.BlockSize)
	var reqs []backstore.Request
	for n := range depth {
		off := int64(n) * 4096
		if off+4096 > size {
			break
		}
		data := memory[off : off+4096 : off+4096]
		pattern(data, off, 3)
		reqs = append(reqs, backstore.Request{Tag: uint64(n), Op: backstore.OpWrite, Off: off, Data: data})
	}
	return reqs
}

// collect takes n results, which must all be good.
func (r *run) collect(q *host.Queue, n int, p *process) {
	r.Helper()
	res := make([]backstore.Result, depth)
	got := 0
	eventually(r.TB, time.Minute, func() bool {
		k := q.Poll(res)
		for _, one := range res[:k] {
			if one.Code != backstore.CodeOK {
				r.Errorf("request %d: %v", one.Tag, one.Code)
			}
		}
		got += k
		return got >= n || p.trouble() != nil
	})
	if got < n {
		r.Fatalf("%d of %d requests were not answered; %v", n-got, n, p.trouble())
	}
}

func checkDetach(r *run) {
	config, a := r.config(r.TB), r.arena()
	p := r.start(a)
	s := r.open(p, config)
	st := s.store
	for round := range 5 {
		q, err := st.NewQueue(r.within(startTime), host.QueueOptions{Entries: depth})
		if err != nil {
			r.Fatalf("a second queue of the store: %v", err)
		}
		reqs := r.writes(s.info, a.Bytes())
		for i := range reqs {
			reqs[i].Op = backstore.OpRead
		}
		q.Submit(reqs)
		q.Flush()
		if err := q.Close(); err != nil {
			r.Error(err)
		}
		if err := p.trouble(); err != nil {
			r.Fatalf("it does not let go of a queue with requests under way: %v", err)
		}
		r.untouched(a.Bytes()[:len(reqs)*4096], round)
	}
	if err := s.Write(r.ctx, make([]byte, s.info.BlockSize), 0, 0); err != nil {
		r.Errorf("afterwards, over the other queue: %v", err)
	}
}

// untouched fills memory that nobody has any more, and looks at it again later.
func (r *run) untouched(b []byte, round int) {
	for i := range b {
		b[i] = canary
	}
	time.Sleep(50 * time.Millisecond)
	if err := intact(b, 0); err != nil {
		r.Errorf("round %d, after it has let go of the queue: %v", round, err)
	}
}

// held is what a process has open.
type held struct{ descriptors, threads, mappings int }

func heldBy(pid int) (h held, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return h, err
	}
	tasks, err := os.ReadDir(filepath.Join(proc, "task"))
	if err != nil {
		return h, err
	}
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	return held{len(fds), len(tasks), bytes.Count(maps, []byte{'\n'})}, err
}

func checkLeaks(r *run) {
	// A runtime keeps some threads and mappings; what is lost at each opening shows as a hundred.
	const rounds, slack = 100, 40
	config := r.config(r.TB)
	p := r.start(r.arena())
	cycle := func(n int) {
		for range n {
			if err := openAndClose(r.ctx, p, config); err != nil {
				r.Fatal(err)
			}
		}
	}
	cycle(10)
	before, err := heldBy(p.PID())
	if err != nil {
		r.Skipf("what the process has open cannot be seen: %v", err)
	}
	cycle(rounds)
	var after held
	few := func() bool {
		after, err = heldBy(p.PID())
		return err == nil && after.descriptors-before.descriptors < slack && after.threads-before.threads < slack &&
			after.mappings-before.mappings < 2*slack
	}
	if !eventually(r.TB, 5*time.Second, few) {
		r.Errorf("before %d openings %+v, after them %+v, %v", rounds, before, after, err)
	}
}

func openAndClose(ctx context.Context, p *process, config map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	s, err := openRemote(ctx, p, config)
	if err != nil {
		return err
	}
	if err := s.Read(ctx, make([]byte, s.info.BlockSize), 0); err != nil {
		return fmt.Errorf("Read: %w", err)
	}
	return s.Close()
}
