package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// IO is one request. It belongs to the device from Submit until Done is called.
type IO struct {
	Write bool
	// Off is the byte offset.
	Off int64
	// Buf is the data, part of the memory that the device allotted.
	Buf []byte
	// Slot numbers the request among those outstanding.
	Slot int
	// Done is called once, from any goroutine, and may submit again.
	Done func(*IO, error)

	started time.Time
}

// Device is what is loaded.
type Device interface {
	// Size is the device's size in bytes.
	Size() int64
	// Buffers allots n buffers of size bytes; it is called once, before Submit.
	Buffers(n, size int) ([][]byte, error)
	// Submit starts a request and does not wait for it.
	Submit(*IO)
}

// Pattern is an access pattern.
type Pattern struct {
	Random, Write bool
}

// ParsePattern reads a pattern's name: randread, randwrite, read or write.
func ParsePattern(s string) (Pattern, error) {
	switch s {
	case "randread":
		return Pattern{Random: true}, nil
	case "randwrite":
		return Pattern{Random: true, Write: true}, nil
	case "read":
		return Pattern{}, nil
	case "write":
		return Pattern{Write: true}, nil
	}
	return Pattern{}, fmt.Errorf("%q is none of randread, randwrite, read, write", s)
}

// Job is what to do.
type Job struct {
	Pattern
	// Block is the length of a request, Depth how many are outstanding, Range how much of the device is used; all in bytes.
	Block, Depth int
	Range        int64
	Time         time.Duration
}

// Report is what came out.
type Report struct {
	IOs     uint64  `json:"ios"`
	Seconds float64 `json:"seconds"`
	IOPS    float64 `json:"iops"`
	// MBps is in 10^6 bytes a second.
	MBps float64 `json:"mb_per_s"`
	// Latencies are in microseconds.
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// String is the report on a line.
func (r Report) String() string {
	return fmt.Sprintf("%9.0f IOPS %9.1f MB/s   p50 %8.0f us  p99 %8.0f us", r.IOPS, r.MBps, r.P50, r.P99)
}

// runner keeps Depth requests outstanding.
type runner struct {
	job    Job
	dev    Device
	blocks int64
	stop   time.Time
	ctx    context.Context

	mu   sync.Mutex // completions of a file come from several goroutines
	rng  *rand.Rand
	next int64
	hist *hdrhistogram.Histogram
	err  error
	left sync.WaitGroup
}

// Run does the job. It returns the first error, after every request has ended.
func Run(ctx context.Context, dev Device, job Job) (Report, error) {
	job.Range = min(job.Range, dev.Size())
	r := &runner{
		job: job, dev: dev, ctx: ctx, blocks: job.Range / int64(job.Block), rng: rand.New(rand.NewPCG(1, 2)),
		hist: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3),
	}
	if r.blocks == 0 {
		return Report{}, fmt.Errorf("a block of %d bytes does not fit into %d", job.Block, job.Range)
	}
	bufs, err := dev.Buffers(job.Depth, job.Block)
	if err != nil {
		return Report{}, err
	}
	for i := range bufs {
		fill(bufs[i], int64(i), 0)
	}
	begin := time.Now()
	r.stop = begin.Add(job.Time)
	r.left.Add(job.Depth)
	for i := range job.Depth {
		r.start(&IO{Buf: bufs[i], Slot: i, Write: job.Write, Done: r.done})
	}
	r.left.Wait()
	if r.err == nil {
		r.err = ctx.Err()
	}
	return r.report(time.Since(begin)), r.err
}

func (r *runner) start(io *IO) {
	r.mu.Lock()
	b := r.next % r.blocks
	r.next++
	if r.job.Random {
		b = r.rng.Int64N(r.blocks)
	}
	r.mu.Unlock()
	io.Off = b * int64(r.job.Block)
	io.started = time.Now()
	r.dev.Submit(io)
}

func (r *runner) done(io *IO, err error) {
	now := time.Now()
	r.mu.Lock()
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("at offset %d: %w", io.Off, err))
	} else if e := r.hist.RecordValue(max(1, now.Sub(io.started).Microseconds())); e != nil {
		r.err = errors.Join(r.err, e)
	}
	over := r.err != nil || now.After(r.stop) || r.ctx.Err() != nil
	r.mu.Unlock()
	if over {
		r.left.Done()
		return
	}
	r.start(io)
}

func (r *runner) report(d time.Duration) Report {
	n := float64(r.hist.TotalCount())
	return Report{
		IOs: uint64(n), Seconds: d.Seconds(), IOPS: n / d.Seconds(), MBps: n * float64(r.job.Block) / d.Seconds() / 1e6,
		P50: float64(r.hist.ValueAtQuantile(50)), P99: float64(r.hist.ValueAtQuantile(99)), Max: float64(r.hist.Max()),
	}
}
