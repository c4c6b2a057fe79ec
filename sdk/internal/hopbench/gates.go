package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// gate is a figure of each round whose median must reach a bound.
type gate struct {
	name   string
	figure func(t *table, round int) float64
	bound  float64
	goal   float64
	// most: the figure must not exceed the bound. Otherwise it must not be less.
	most bool
	// missing tells why the figure is not there.
	missing func(t *table) error
}

func at(transport string, depth, size int) point {
	return point{transport, depth, size, size == large}
}

func ratio(a, b point, of func(figures) float64) func(*table, int) float64 {
	return func(t *table, i int) float64 { return of(t.rounds[a][i]) / of(t.rounds[b][i]) }
}

func latency(a, b point) func(*table, int) float64 {
	return ratio(a, b, func(f figures) float64 { return float64(f.p50) })
}

func rate(a, b point) func(*table, int) float64 {
	return ratio(a, b, func(f figures) float64 { return f.iops })
}

func cpu(a, b point) func(*table, int) float64 {
	return ratio(a, b, func(f figures) float64 { return float64(max(f.cpu, 1)) })
}

func calls(p point) func(*table, int) float64 {
	return func(t *table, i int) float64 { return t.calls[p][i] }
}

func noCalls(t *table) error { return t.noCalls }
func noFile(t *table) error  { return t.noFile }

// gates are the project's, for both processes on one CPU.
func gates() []gate {
	r1, r32 := at(ringT, 1, small), at(ringT, deep, small)
	f1, f32 := at(filePluginT, 1, small), at(filePluginT, deep, small)
	return []gate{
		{name: "T1   4 KiB, depth 1: latency, gRPC unary / ring", figure: latency(at(unaryT, 1, small), r1), bound: 5, goal: 10},
		{name: "T2   4 KiB, depth 1: latency, gRPC stream / ring", figure: latency(at(streamT, 1, small), r1), bound: 4, goal: 8},
		{name: "T3   depth 1: latency, ring / unix socket", figure: latency(r1, at(socketT, 1, small)), bound: 0.8, goal: 0.5, most: true},
		{name: "T5a  4 KiB, depth 32: IOPS, ring / gRPC stream", figure: rate(r32, at(streamT, deep, small)), bound: 10, goal: 20},
		{name: "T5b  4 KiB, depth 32: IOPS, ring / gRPC unary", figure: rate(r32, at(unaryT, deep, small)), bound: 25, goal: 60},
		{name: "T6   4 KiB, depth 32: IOPS, ring / channel", figure: rate(r32, at(channelT, deep, small)), bound: 0.15, goal: 0.4},
		{name: "T7   4 KiB, depth 32: CPU/IO, gRPC stream / ring", figure: cpu(at(streamT, deep, small), r32), bound: 8, goal: 20},
		{name: "T8   256 KiB, depth 32: IOPS, ring / gRPC stream", figure: rate(at(ringT, deep, large), at(streamT, deep, large)), bound: 40, goal: 70},
		{name: "T9a  4 KiB, depth 1: system calls per I/O of the ring", figure: calls(r1), bound: 6.5, goal: 4, most: true, missing: noCalls},
		{name: "T9b  4 KiB, depth 32: system calls per I/O of the ring", figure: calls(r32), bound: 0.35, goal: 0.1, most: true, missing: noCalls},
		{name: "T10  file, depth 1: latency, plugin / in-process pread", figure: latency(f1, at(filePreadT, 1, small)), bound: 1.3, goal: 1.1, most: true, missing: noFile},
		{name: "T11a file, depth 32: IOPS, plugin / in-process io_uring", figure: rate(f32, at(fileUringT, deep, small)), bound: 0.65, goal: 0.85, missing: noFile},
		{name: "T11b file, depth 32: IOPS, plugin / in-process pool", figure: rate(f32, at(filePoolT, deep, small)), bound: 1.2, goal: 1.6, missing: noFile},
	}
}

// printGates prints every figure and tells whether each median reaches its bound. One that could not be measured is
// not met.
func printGates(w io.Writer, t *table) error {
	var unmet error
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "within a round\tmedian\trange\tgate\tgoal\t")
	for _, g := range gates() {
		if g.missing != nil && g.missing(t) != nil {
			unmet = errors.Join(unmet, fmt.Errorf("%.4s was not measured", g.name))
			fmt.Fprintf(tw, "%s\tnot measured\t\t%s\t%s\t\n", g.name, g.limit(g.bound), g.limit(g.goal))
			continue
		}
		var v []float64
		for i := range t.count() {
			v = append(v, g.figure(t, i))
		}
		m, verdict := median(v), "pass"
		if !g.reached(m) {
			verdict = "FAIL"
			unmet = errors.Join(unmet, fmt.Errorf("%.4s does not reach its gate", g.name))
		}
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f-%.2f\t%s %s\t%s\t\n", g.name, m, slices.Min(v), slices.Max(v), g.limit(g.bound), verdict, g.limit(g.goal))
	}
	tw.Flush()
	for _, err := range []error{t.noCalls, t.noFile} {
		if err != nil {
			fmt.Fprintln(w, "not measured:", err)
		}
	}
	return unmet
}

func (g *gate) reached(v float64) bool {
	if g.most {
		return v <= g.bound
	}
	return v >= g.bound
}

func (g *gate) limit(v float64) string {
	if g.most {
		return fmt.Sprintf("<= %g", v)
	}
	return fmt.Sprintf(">= %g", v)
}
