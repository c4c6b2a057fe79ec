package plugintest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// Job is one measurement.
type Job struct {
	Name string `json:"job"`
	// Block is the size of a request in bytes, Depth how many are outstanding.
	Block int `json:"block"`
	Depth int `json:"depth"`
	// Write says that it writes, Random that it goes to random places.
	Write  bool `json:"write"`
	Random bool `json:"random"`
}

// jobs are what Bench measures.
var jobs = []Job{
	{Name: "random read", Block: 4 << 10, Depth: 1, Random: true},
	{Name: "random read", Block: 4 << 10, Depth: 32, Random: true},
	{Name: "random write", Block: 4 << 10, Depth: 1, Random: true, Write: true},
	{Name: "random write", Block: 4 << 10, Depth: 32, Random: true, Write: true},
	{Name: "read", Block: 128 << 10, Depth: 8},
	{Name: "write", Block: 128 << 10, Depth: 8, Write: true},
	{Name: "read", Block: 256 << 10, Depth: 8},
	{Name: "write", Block: 256 << 10, Depth: 8, Write: true},
}

// Figures are what a job came to. Latencies are in microseconds.
type Figures struct {
	Job
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`
	IOPS     float64 `json:"iops"`
	MiB      float64 `json:"mib_per_second"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
}

// Bench measures a backstore plugin alone, each job for d: over the ring if it has one and Slow is not set. The store of Config is filled
// first, so that no job reads holes, and loses its data. Done is called after each job.
func Bench(ctx context.Context, o Options, d time.Duration, done func(Figures)) error {
	k, err := newKit(ctx, o)
	if err != nil {
		return err
	}
	if k.about.Kind != host.KindBackstore {
		return fmt.Errorf("plugintest: a plugin of the kind %s has no data to measure", k.about.Kind)
	}
	tmp, err := os.MkdirTemp("", "gosrpt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	arena, err := host.NewArena(arenaSize)
	if err != nil {
		return err
	}
	defer arena.Close()
	p, err := startProcess(ctx, &k.o, k.o.Slow, arena)
	if err != nil {
		return &StartError{err}
	}
	defer p.end()
	b, err := openBench(ctx, p, k.inDir(tmp))
	if err != nil {
		return err
	}
	return errors.Join(b.all(ctx, d, done), b.close())
}

// bench drives a queue as a reactor does: one goroutine completes and submits again.
type bench struct {
	p     *process
	store *host.Store
	q     *host.Queue
	wait  *shm.Waiter
	info  backstore.Info
	size  int64
	rnd   *rand.Rand
	reqs  [maxDepth]backstore.Request
	since [maxDepth]time.Time
	res   [maxDepth]backstore.Result
}

// maxDepth is the most that a job has outstanding.
const maxDepth = 64

func openBench(ctx context.Context, p *process, config map[string]string) (*bench, error) {
	start, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	st, err := p.Open(start, config)
	if err != nil {
		return nil, err
	}
	q, err := st.NewQueue(start, host.QueueOptions{Entries: maxDepth, EdgeTriggered: true})
	if err != nil {
		return nil, err
	}
	w, err := shm.NewWaiter(shm.EventFrom(q.FD()))
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	i := st.Info()
	return &bench{p: p, store: st, q: q, wait: w, info: i, size: int64(i.Blocks) * int64(i.BlockSize), rnd: rand.New(rand.NewPCG(1, 2))}, nil
}

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return errors.Join(b.wait.Close(), b.q.Close(), b.store.Close(ctx))
}

// all fills the store and runs the jobs.
func (b *bench) all(ctx context.Context, d time.Duration, done func(Figures)) error {
	if !b.info.ReadOnly {
		fill := Job{Name: "fill", Block: b.block(256 << 10), Depth: 8, Write: true}
		if _, err := b.run(ctx, fill, func(n int64, _ time.Duration) bool { return n < b.size/int64(fill.Block) }); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		j.Block = b.block(j.Block)
		if (j.Write && b.info.ReadOnly) || b.size < int64(j.Block) {
			continue
		}
		f, err := b.run(ctx, j, func(_ int64, since time.Duration) bool { return since < d })
		if err != nil {
			return err
		}
		done(f)
	}
	return nil
}

// block is what a store takes at once of n bytes.
func (b *bench) block(n int) int {
	if b.info.MaxTransfer != 0 {
		n = min(n, int(b.info.MaxTransfer))
	}
	return n
}

// run keeps a job's depth outstanding as long as more says so, which is asked with the number of requests begun and the time since
// the first.
func (b *bench) run(ctx context.Context, j Job, more func(int64, time.Duration) bool) (Figures, error) {
	hist := hdrhistogram.New(1, int64(10*time.Minute/time.Nanosecond), 3)
	begin := time.Now()
	begun, out := int64(0), 0
	submit := func(i int, now time.Time) {
		b.aim(i, j, begun)
		b.since[i] = now
		b.q.Submit(b.reqs[i : i+1])
		begun++
		out++
	}
	for i := 0; i < j.Depth && more(begun, 0); i++ {
		submit(i, time.Now())
	}
	b.q.Flush()
	for out > 0 {
		n := b.q.Poll(b.res[:])
		if n == 0 {
			if err := b.p.trouble(); err != nil {
				return Figures{}, err
			}
			if err := b.wait.Wait(b.q.Arm); err != nil {
				return Figures{}, err
			}
			continue
		}
		for _, r := range b.res[:n] {
			if r.Code != backstore.CodeOK {
				return Figures{}, fmt.Errorf("%s of %d bytes: %w", j.Name, j.Block, &backstore.Error{Code: r.Code, Err: b.p.trouble()})
			}
			now := time.Now()
			if err := hist.RecordValue(int64(now.Sub(b.since[r.Tag]))); err != nil {
				return Figures{}, err
			}
			out--
			if ctx.Err() == nil && more(begun, now.Sub(begin)) {
				submit(int(r.Tag), now)
			}
		}
		b.q.Flush()
	}
	return figures(j, hist, time.Since(begin)), ctx.Err()
}

// aim makes request i of a job the n-th.
func (b *bench) aim(i int, j Job, n int64) {
	r := &b.reqs[i]
	*r = backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: b.p.arena.Bytes()[i*j.Block : (i+1)*j.Block : (i+1)*j.Block]}
	if j.Write {
		r.Op = backstore.OpWrite
	}
	places := b.size / int64(j.Block)
	if j.Random {
		n = b.rnd.Int64N(places)
	}
	r.Off = n % places * int64(j.Block)
}

func figures(j Job, h *hdrhistogram.Histogram, took time.Duration) Figures {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	n, s := h.TotalCount(), took.Seconds()
	return Figures{
		Job: j, Requests: n, Seconds: s, IOPS: float64(n) / s, MiB: float64(n) * float64(j.Block) / s / (1 << 20),
		P50: us(50), P90: us(90), P99: us(99), P999: us(99.9), Max: float64(h.Max()) / 1e3,
	}
}
