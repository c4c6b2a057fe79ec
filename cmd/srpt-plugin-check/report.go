package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/gosrpt/gosrpt/cmd/internal/about"
	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

// document is the report as JSON.
type document struct {
	Plugin  string               `json:"plugin"`
	About   about.Plugin         `json:"about"`
	Checks  []conformance.Result `json:"checks"`
	Summary conformance.Count    `json:"summary"`
	Begun   time.Time            `json:"begun"`
	Seconds float64              `json:"seconds"`
}

func (f *flags) run(ctx context.Context, o plugintest.Options, out, errs io.Writer) error {
	switch {
	case f.list:
		names, err := plugintest.List(ctx, o)
		if err == nil && f.output == "json" {
			return write(out, names)
		}
		for _, n := range names {
			fmt.Fprintln(out, n)
		}
		return err
	case f.bench:
		return f.measure(ctx, o, out, errs)
	}
	p := newProgress(errs)
	defer p.stop()
	o.Begin = p.begin
	o.Done = func(r conformance.Result) {
		p.done()
		if f.output == "text" {
			line(out, r)
		}
	}
	r, err := plugintest.Run(ctx, o)
	if err != nil {
		return err
	}
	n := conformance.CountOf(r.Results)
	if f.output == "json" {
		err = write(out, document{Plugin: o.Path, About: about.Of(r.About), Checks: r.Results, Summary: n, Begun: r.Begun, Seconds: r.Took.Seconds()})
	} else {
		fmt.Fprintln(out, n)
	}
	if err == nil && n.Failed > 0 {
		err = errFailed
	}
	if err == nil && n.Run == 0 {
		err = usageError{fmt.Errorf("no check has a name that matches %q; --list lists them", f.match)}
	}
	return err
}

func write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// line is a check's line of the text, and what it has to say indented below.
func line(w io.Writer, r conformance.Result) {
	word := map[conformance.Status]string{conformance.Passed: "ok", conformance.Skipped: "skip", conformance.Failed: "FAIL"}[r.Status]
	fmt.Fprintf(w, "%-4s  %s (%.2fs)\n", word, r.Name, r.Seconds)
	if r.Status == conformance.Failed {
		r.Reason = append(r.Reason, r.Log...)
	}
	for _, s := range r.Reason {
		fmt.Fprintf(w, "      %s\n", strings.ReplaceAll(s, "\n", "\n      "))
	}
}

// measure prints figures as they come.
func (f *flags) measure(ctx context.Context, o plugintest.Options, out, errs io.Writer) error {
	p := newProgress(errs)
	defer p.stop()
	p.begin("measuring")
	all := []plugintest.Figures{}
	err := plugintest.Bench(ctx, o, f.duration, func(r plugintest.Figures) {
		all = append(all, r)
		p.begin(fmt.Sprintf("measuring, %d jobs are done", len(all)))
	})
	p.stop()
	if err != nil {
		return err
	}
	if f.output == "json" {
		return write(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tBLOCK\tDEPTH\tIOPS\tMiB/s\tp50 us\tp90 us\tp99 us\tp99.9 us\tmax us")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%d KiB\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", r.Name, r.Block>>10, r.Depth, r.IOPS, r.MiB,
			r.P50, r.P90, r.P99, r.P999, r.Max)
	}
	return w.Flush()
}

// progress says on stderr what has been under way for more than two seconds, and again every two.
type progress struct {
	w    io.Writer
	mu   sync.Mutex
	name string
	at   time.Time
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, quit: make(chan struct{})}
	p.wg.Go(func() {
		t := time.NewTicker(2 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-p.quit:
				return
			case now := <-t.C:
				p.tell(now)
			}
		}
	})
	return p
}

func (p *progress) tell(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := now.Sub(p.at); p.name != "" && d >= 2*time.Second {
		fmt.Fprintf(p.w, "...   %s: %v so far\n", p.name, d.Round(time.Second))
	}
}

func (p *progress) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.at = name, time.Now()
}

func (p *progress) done() { p.begin("") }

func (p *progress) stop() {
	p.once.Do(func() { close(p.quit) })
	p.wg.Wait()
}
