package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// round is one run of a fio job.
type round struct {
	iops, mibPerS, p50us, p99us float64
}

// jobRounds is a job with its rounds, in the order run.
type jobRounds struct {
	job    string
	rounds []round
}

// results are the jobs in the order of their first round.
type results []jobRounds

// parseResults reads lines of JOB,ROUND,IOPS,MIB_PER_S,P50_US,P99_US.
func parseResults(text string) (results, error) {
	var rs results
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) != 6 {
			return nil, fmt.Errorf("a measurement of %d fields, want 6: %q", len(fields), line)
		}
		var v [4]float64
		for i, f := range fields[2:] {
			var err error
			if v[i], err = strconv.ParseFloat(f, 64); err != nil {
				return nil, fmt.Errorf("measurement %q: %w", line, err)
			}
		}
		rs = rs.add(fields[0], round{v[0], v[1], v[2], v[3]})
	}
	return rs, nil
}

func (rs results) add(job string, r round) results {
	for i := range rs {
		if rs[i].job == job {
			rs[i].rounds = append(rs[i].rounds, r)
			return rs
		}
	}
	return append(rs, jobRounds{job, []round{r}})
}

func (rs results) find(job string) (jobRounds, bool) {
	i := slices.IndexFunc(rs, func(j jobRounds) bool { return j.job == job })
	if i < 0 {
		return jobRounds{}, false
	}
	return rs[i], true
}

// median of a figure over the rounds, and its spread: (largest - smallest) / median.
func (j jobRounds) median(figure func(round) float64) (median, spread float64) {
	var v []float64
	for _, r := range j.rounds {
		v = append(v, figure(r))
	}
	slices.Sort(v)
	n := len(v)
	median = (v[(n-1)/2] + v[n/2]) / 2
	if median != 0 {
		spread = (v[n-1] - v[0]) / median
	}
	return median, spread
}

func iops(r round) float64 { return r.iops }
func p50(r round) float64  { return r.p50us }
func p99(r round) float64  { return r.p99us }
func mib(r round) float64  { return r.mibPerS }

// column is a target with what was measured of it.
type column struct {
	name string
	results
}

// table prints the targets' figures, job by job, and the throughput of each as a multiple of the first one's.
func table(w io.Writer, targets []column) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "job\t")
	for _, c := range targets {
		fmt.Fprintf(t, "%s IOPS\tMiB/s\tp50 us\tp99 us\tspread\t", c.name)
	}
	for _, c := range targets[1:] {
		fmt.Fprintf(t, "%s/%s\t", c.name, targets[0].name)
	}
	fmt.Fprintln(t)
	for _, first := range targets[0].results {
		if err := row(t, first, targets); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, note, 1<<instructionShift)
	return err
}

func row(t io.Writer, first jobRounds, targets []column) error {
	fmt.Fprintf(t, "%s\t%s\t", first.job, first.figures())
	base, _ := first.median(iops)
	ratios := ""
	for _, c := range targets[1:] {
		j, ok := c.find(first.job)
		if !ok {
			return fmt.Errorf("job %s was not measured on %s", first.job, c.name)
		}
		fmt.Fprintf(t, "%s\t", j.figures())
		n, _ := j.median(iops)
		ratios += fmt.Sprintf("%.2f\t", n/base)
	}
	_, err := fmt.Fprintln(t, ratios)
	return err
}

func (j jobRounds) figures() string {
	i, spread := j.median(iops)
	m, _ := j.median(mib)
	half, _ := j.median(p50)
	most, _ := j.median(p99)
	return fmt.Sprintf("%.0f\t%.1f\t%.0f\t%.0f\t%.1f%%", i, m, half, most, spread*100)
}

const note = `
The clock counts instructions (%d ns each) of one emulated CPU that runs initiator, fabric and target: the figures compare
work, not speed. LIO and verbs are reached through rxe's own loopback; roce through a veth pair and a UDP socket in another namespace.
LIO, verbs and roce have a file in memory; verbs-null has a null block device.
`
