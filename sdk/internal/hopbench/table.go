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
	points []point
	rounds map[point][]figures
}

const (
	ringT    = "ring"
	unaryT   = "gRPC unary"
	streamT  = "gRPC stream"
	channelT = "channel"
	directT  = "direct call"
)

func points() []point {
	var ps []point
	for _, c := range []struct {
		depth, size int
		touch       bool
	}{{1, small, false}, {deep, small, false}, {1, large, true}, {deep, large, true}} {
		for _, t := range []string{ringT, streamT, unaryT, channelT, directT} {
			if t == directT && c.depth > 1 {
				continue
			}
			ps = append(ps, point{t, c.depth, c.size, c.touch})
		}
	}
	return ps
}

// measure runs every case once in each round, after one round that does not count.
func measure(s *setup, rounds int, each time.Duration) (*table, error) {
	t := &table{points: points(), rounds: map[point][]figures{}}
	for _, p := range t.points {
		if _, err := s.measure(p, each/10); err != nil {
			return nil, err
		}
	}
	for range rounds {
		for _, p := range t.points {
			f, err := s.measure(p, each)
			if err != nil {
				return nil, fmt.Errorf("%s, depth %d, %d bytes: %w", p.transport, p.depth, p.size, err)
			}
			t.rounds[p] = append(t.rounds[p], f)
		}
	}
	return t, nil
}

func (s *setup) measure(p point, d time.Duration) (figures, error) {
	hop := s.queues[index(p.touch)]
	pids := []int{os.Getpid()}
	switch p.transport {
	case ringT:
		pids = append(pids, s.ring.PID())
	case unaryT, streamT:
		pids = append(pids, s.grpc.PID())
	}
	before, err := usageOf(pids...)
	if err != nil {
		return figures{}, err
	}
	rings := hop.q.Counters().Rings
	m, start := newMeter(d), time.Now()
	if err := s.run(p, hop, m); err != nil {
		return figures{}, err
	}
	took := time.Since(start)
	after, err := usageOf(pids...)
	if err != nil {
		return figures{}, err
	}
	used, n := after.sub(before), len(m.took)
	slices.Sort(m.took)
	return figures{
		p50: m.took[n/2], p99: m.took[n*99/100], iops: float64(n) / took.Seconds(),
		cpu: used.cpu / time.Duration(n), sleeps: float64(used.switches) / float64(n),
		rings: float64(hop.q.Counters().Rings-rings) / float64(n),
	}, nil
}

func (s *setup) run(p point, hop *ringHop, m *meter) error {
	arena, i := s.arena.Bytes(), index(p.touch)
	switch p.transport {
	case ringT:
		return hop.run(p.depth, p.size, m)
	case unaryT:
		return unary(s.grpc, s.stores[i], arena, p.depth, p.size, m)
	case streamT:
		return stream(s.grpc, s.stores[i], arena, p.depth, p.size, m)
	case channelT:
		return channel(s.local[i], arena, p.depth, p.size, m)
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
	last := point{}
	for _, p := range t.points {
		if last.depth != 0 && (last.depth != p.depth || last.size != p.size) {
			fmt.Fprintln(tw, "\t\t\t\t\t\t\t\t\t")
		}
		last = p
		fs := t.rounds[p]
		fmt.Fprintf(tw, "%s\t%d\t%d KiB\t%.2f\t%.2f\t%.0f\t%.2f\t%.3f\t%.3f\t\n", p.transport, p.depth, p.size>>10,
			micros(median(pick(fs, func(f figures) time.Duration { return f.p50 }))),
			micros(median(pick(fs, func(f figures) time.Duration { return f.p99 }))),
			median(pick(fs, func(f figures) float64 { return f.iops })),
			micros(median(pick(fs, func(f figures) time.Duration { return f.cpu }))),
			median(pick(fs, func(f figures) float64 { return f.sleeps })),
			median(pick(fs, func(f figures) float64 { return f.rings })))
	}
	tw.Flush()
	fmt.Fprintf(w, "\nMedians of %d rounds. CPU and sleeps are of both processes. 256 KiB transfers are copied once by the store.\n\n",
		len(t.rounds[t.points[0]]))
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
