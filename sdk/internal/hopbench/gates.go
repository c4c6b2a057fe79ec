package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// gate is a ratio within a round that must be reached.
type gate struct {
	name  string
	ratio func(round func(point) figures) float64
	least float64
	goal  float64
}

func at(transport string, depth, size int) point {
	return point{transport, depth, size, size == large}
}

func latency(a, b point) func(func(point) figures) float64 {
	return func(f func(point) figures) float64 { return float64(f(a).p50) / float64(f(b).p50) }
}

func rate(a, b point) func(func(point) figures) float64 {
	return func(f func(point) figures) float64 { return f(a).iops / f(b).iops }
}

func cpu(a, b point) func(func(point) figures) float64 {
	return func(f func(point) figures) float64 { return float64(f(a).cpu) / float64(max(f(b).cpu, 1)) }
}

// gates are the project's, for both processes on one CPU.
func gates() []gate {
	r1, r32 := at(ringT, 1, small), at(ringT, deep, small)
	return []gate{
		{"T1  4 KiB, depth 1: latency, gRPC unary / ring", latency(at(unaryT, 1, small), r1), 5, 10},
		{"T2  4 KiB, depth 1: latency, gRPC stream / ring", latency(at(streamT, 1, small), r1), 4, 8},
		{"T5a 4 KiB, depth 32: IOPS, ring / gRPC stream", rate(r32, at(streamT, deep, small)), 10, 20},
		{"T5b 4 KiB, depth 32: IOPS, ring / gRPC unary", rate(r32, at(unaryT, deep, small)), 25, 60},
		{"T6  4 KiB, depth 32: IOPS, ring / channel", rate(r32, at(channelT, deep, small)), 0.15, 0.4},
		{"T7  4 KiB, depth 32: CPU/IO, gRPC stream / ring", cpu(at(streamT, deep, small), r32), 8, 20},
		{"T8  256 KiB, depth 32: IOPS, ring / gRPC stream", rate(at(ringT, deep, large), at(streamT, deep, large)), 40, 70},
	}
}

// printGates prints every ratio and tells whether each median reaches its gate.
func printGates(w io.Writer, t *table) bool {
	met := true
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ratio within a round\tmedian\trange\tgate\tgoal\t")
	for _, g := range gates() {
		var v []float64
		for i := range t.rounds[t.points[0]] {
			v = append(v, g.ratio(func(p point) figures { return t.rounds[p][i] }))
		}
		m, verdict := median(v), "pass"
		if m < g.least {
			verdict, met = "FAIL", false
		}
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f-%.2f\t>= %g %s\t>= %g\t\n", g.name, m, slices.Min(v), slices.Max(v), g.least, verdict, g.goal)
	}
	tw.Flush()
	return met
}
