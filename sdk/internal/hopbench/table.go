package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// point is a case: a transport at a queue depth and a size.
type point struct {
	transport   string
	depth, size int
	touch       bool
}

// figures of one measurement.
type figures struct {
	p50, p99 time.Duration
	iops     float64
	cpu      time.Duration // of both processes, for each request
	sleeps   float64       // voluntary context switches of both, for each request
	rings    float64       // doorbells to the plugin, for each request
}

// table has the figures of every round.
type table struct {
	groups [][]point
	rounds map[point][]figures
	// calls are the system calls of both processes for each request, in passes of their own.
	calls   map[point][]float64
	noCalls error // why calls is empty
	noFile  error // why the file backstore is not in the table
}

const (
	ringT    = "ring"
	socketT  = "unix socket, descriptors"
	unaryT   = "gRPC unary"
	streamT  = "gRPC stream"
	channelT = "channel"
	directT  = "direct call"

	filePluginT = "file: plugin"
	fileUringT  = "file: in-process io_uring"
	filePoolT   = "file: in-process pool, pread"
	filePreadT  = "file: in-process pread" // at depth n, n goroutines that have nothing to do with one another
)

// groups lists the cases, in the table's order. Those of a group are compared with one another.
func groups(file bool) [][]point {
	var all [][]point
	add := func(depth, size int, touch bool, transports ...string) {
		var g []point
		for _, t := range transports {
			g = append(g, point{t, depth, size, touch})
		}
		all = append(all, g)
	}
	add(1, small, false, ringT, socketT, streamT, unaryT, channelT, directT)
	add(deep, small, false, ringT, socketT, streamT, unaryT, channelT)
	add(1, large, true, ringT, streamT, unaryT, channelT, directT)
	add(deep, large, true, ringT, streamT, unaryT, channelT)
	if file {
		add(1, small, false, filePluginT, fileUringT, filePreadT)
		add(deep, small, false, filePluginT, fileUringT, filePoolT, filePreadT)
	}
	return all
}

// turns is how often the cases of a group take turns within a round: what else the machine does then meets all of them.
const turns = 5

// measure runs every case in each round, after one round that does not count.
func measure(s *setup, rounds int, each time.Duration) (*table, error) {
	t := &table{groups: groups(s.file != nil), rounds: map[point][]figures{}, noFile: s.noFile}
	samples := map[point]*sample{}
	for round := range rounds + 1 {
		for _, g := range t.groups {
			if err := s.round(g, each/turns, samples); err != nil {
				return nil, err
			}
			for _, p := range g {
				if f := samples[p].figures(); round > 0 {
					t.rounds[p] = append(t.rounds[p], f)
				}
			}
		}
	}
	t.calls, t.noCalls = s.countAll(rounds, each/2)
	return t, nil
}

// round measures the cases of a group in turns.
func (s *setup) round(group []point, each time.Duration, samples map[point]*sample) error {
	for _, p := range group {
		if samples[p] == nil {
			samples[p] = &sample{meter: newMeter()}
		}
		*samples[p] = sample{meter: samples[p].meter}
		samples[p].meter.took = samples[p].meter.took[:0]
	}
	for range turns {
		for _, p := range group {
			if err := s.measure(p, each, samples[p]); err != nil {
				return fmt.Errorf("%s, depth %d, %d bytes: %w", p.transport, p.depth, p.size, err)
			}
		}
	}
	return nil
}

// countAll counts the system calls of the ring, apart from the other measurements: counting takes time.
func (s *setup) countAll(rounds int, each time.Duration) (map[point][]float64, error) {
	calls := map[point][]float64{}
	for range rounds {
		for _, depth := range []int{1, deep} {
			p := at(ringT, depth, small)
			c, err := countCalls(s.pids(p)...)
			if err != nil {
				return nil, err
			}
			n, err := s.count(c, p, each)
			c.close()
			if err != nil {
				return nil, err
			}
			calls[p] = append(calls[p], n)
		}
	}
	return calls, nil
}

func (s *setup) count(c *callCounter, p point, d time.Duration) (float64, error) {
	before, err := c.count()
	if err != nil {
		return 0, err
	}
	m := newMeter()
	m.start(d)
	if _, err := s.run(p, d, m); err != nil {
		return 0, err
	}
	after, err := c.count()
	return float64(after-before) / float64(len(m.took)), err
}

// pids are the processes that take part.
func (s *setup) pids(p point) []int {
	switch p.transport {
	case ringT:
		return []int{os.Getpid(), s.ring.PID()}
	case socketT:
		return []int{os.Getpid(), s.socket.cmd.Process.Pid}
	case unaryT, streamT:
		return []int{os.Getpid(), s.grpc.PID()}
	case filePluginT:
		return []int{os.Getpid(), s.file.ring.PID()}
	case fileUringT:
		return []int{s.file.bench.cmd.Process.Pid}
	}
	return []int{os.Getpid()}
}

// sample is what a case has shown in a round.
type sample struct {
	meter *meter
	took  time.Duration
	used  usage
	rings uint64
}

func (a *sample) figures() figures {
	took := a.meter.took
	slices.Sort(took)
	n := len(took)
	return figures{
		p50: took[n/2], p99: took[n*99/100], iops: float64(n) / a.took.Seconds(),
		cpu: a.used.cpu / time.Duration(n), sleeps: float64(a.used.switches) / float64(n),
		rings: float64(a.rings) / float64(n),
	}
}

// measure adds to a sample.
func (s *setup) measure(p point, d time.Duration, a *sample) error {
	pids := s.pids(p)
	before, err := usageOf(pids...)
	if err != nil {
		return err
	}
	rings := s.doorbells(p)
	a.meter.start(d)
	took, err := s.run(p, d, a.meter)
	if err != nil {
		return err
	}
	after, err := usageOf(pids...)
	used := after.sub(before)
	a.took += took
	a.used.cpu += used.cpu
	a.used.switches += used.switches
	a.rings += s.doorbells(p) - rings
	return err
}

// hop is the case's ring, nil if it has none.
func (s *setup) hop(p point) *ringHop {
	switch p.transport {
	case ringT:
		return s.queues[index(p.touch)]
	case filePluginT:
		return s.file.hop
	}
	return nil
}

func (s *setup) doorbells(p point) uint64 {
	if h := s.hop(p); h != nil {
		return h.q.Counters().Rings
	}
	return 0
}

// run runs a case for d and returns how long it took.
func (s *setup) run(p point, d time.Duration, m *meter) (time.Duration, error) {
	if p.transport == fileUringT {
		return s.file.bench.run(p.depth, d, m)
	}
	start := time.Now()
	err := s.runHere(p, m)
	return time.Since(start), err
}

func (s *setup) runHere(p point, m *meter) error {
	arena, i := s.arena.Bytes(), index(p.touch)
	switch p.transport {
	case ringT, filePluginT:
		return s.hop(p).run(p.depth, p.size, m)
	case socketT:
		return s.socket.run(p.depth, m)
	case unaryT:
		return unary(s.grpc, s.stores[i], arena, p.depth, p.size, m)
	case streamT:
		return stream(s.grpc, s.stores[i], arena, p.depth, p.size, m)
	case channelT:
		return channel(s.local[i], arena, p.depth, p.size, m)
	case filePoolT:
		return s.file.pool(p.depth, m)
	case filePreadT:
		return s.file.pread(p.depth, m)
	}
	return direct(s.local[i], arena, p.size, m)
}

func median[T ~int64 | ~float64](v []T) T {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

func pick[T any](fs []figures, f func(figures) T) []T {
	var out []T
	for _, x := range fs {
		out = append(out, f(x))
	}
	return out
}

// print writes the medians of the rounds.
func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "transport\tdepth\tsize\tp50 µs\tp99 µs\tIOPS\tCPU/IO µs\tsleeps/IO\tdoorbells/IO\t")
	for i, g := range t.groups {
		if i > 0 {
			fmt.Fprintln(tw, "\t\t\t\t\t\t\t\t\t")
		}
		for _, p := range g {
			t.printPoint(tw, p)
		}
	}
	tw.Flush()
	fmt.Fprintf(w, "\nMedians of %d rounds. CPU and sleeps are of both processes. 256 KiB transfers are copied once by the store.\n\n", t.count())
}

func (t *table) printPoint(w io.Writer, p point) {
	fs := t.rounds[p]
	fmt.Fprintf(w, "%s\t%d\t%d KiB\t%.2f\t%.2f\t%.0f\t%.2f\t%.3f\t%.3f\t\n", p.transport, p.depth, p.size>>10,
		micros(median(pick(fs, func(f figures) time.Duration { return f.p50 }))),
		micros(median(pick(fs, func(f figures) time.Duration { return f.p99 }))),
		median(pick(fs, func(f figures) float64 { return f.iops })),
		micros(median(pick(fs, func(f figures) time.Duration { return f.cpu }))),
		median(pick(fs, func(f figures) float64 { return f.sleeps })),
		median(pick(fs, func(f figures) float64 { return f.rings })))
}

// count is how many rounds there were.
func (t *table) count() int { return len(t.rounds[t.groups[0][0]]) }

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
