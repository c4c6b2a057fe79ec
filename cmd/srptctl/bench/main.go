// Bench measures, in one run and in interleaved rounds, our initiator against our target over roce on loopback beside the
// raw file with the same access pattern. It is the first half of make bench.
//
// Usage: bench [-rounds 3] [-time 3s] [-dir DIR] BIN, where BIN holds srptd, srptctl and plugins/.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"
)

// jobs are the access patterns: those that users compare targets by.
var jobs = []job{
	{"randread", "4KiB", 1}, {"randread", "4KiB", 16}, {"randread", "4KiB", 64},
	{"read", "256KiB", 8}, {"write", "256KiB", 8},
}

type job struct {
	pattern, block string
	depth          int
}

// result is what srptctl bench says of a job.
type result struct {
	IOPS float64 `json:"iops"`
	MBps float64 `json:"mb_per_s"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
}

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 3, "rounds; the table shows medians")
	flag.DurationVar(&b.each, "time", 3*time.Second, "time for each measurement")
	flag.StringVar(&b.where, "dir", ".", "where to put the file, of 1 GiB")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	rounds int
	each   time.Duration
	where  string
	bin    string
	dir    string
}

func (b *bench) run(ctx context.Context, bin string) (err error) {
	if b.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(b.where, ".bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return err
	}
	daemon, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, daemon.Process.Signal(syscall.SIGTERM), daemon.Wait())
	}()
	fmt.Println("filling 1 GiB through the target, and verifying it")
	if _, err := b.ctl(ctx, "bench", "--verify", "--overwrite", "--block", "1MiB", "--depth", "4"); err != nil {
		return err
	}
	return b.measure(ctx)
}

// start starts the daemon with a file store and waits until it takes logins.
func (b *bench) start(ctx context.Context) (*exec.Cmd, error) {
	c := exec.Command(filepath.Join(b.bin, "srptd"), "--config", os.DevNull, "--listen", "127.0.0.2",
		"--plugin-dir", filepath.Join(b.bin, "plugins"), "--admin-socket", b.socket(), "--log-level", "error",
		"--lun", "lun=0,name=bench,path="+b.file()+",size=1GiB")
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := b.ctl(ctx, "status")
		if bytes.Contains(out, []byte(`"listening"`)) {
			return c, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("srptd does not come up: %w", err), c.Process.Kill(), c.Wait())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (b *bench) socket() string { return filepath.Join(b.dir, "srptd.sock") }
func (b *bench) file() string   { return filepath.Join(b.dir, "disk.img") }

// ctl runs srptctl and returns what it prints.
func (b *bench) ctl(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, filepath.Join(b.bin, "srptctl"), append([]string{"--socket", b.socket(), "--output", "json"}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("srptctl %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

func (b *bench) one(ctx context.Context, j job, file bool) (r result, err error) {
	args := []string{"bench", "--pattern", j.pattern, "--block", j.block, "--depth", strconv.Itoa(j.depth), "--time", b.each.String(), "--overwrite"}
	if file {
		args = append(args, "--file", b.file())
	}
	out, err := b.ctl(ctx, args...)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

func (b *bench) measure(ctx context.Context) error {
	target, file := make([][]result, len(jobs)), make([][]result, len(jobs))
	for round := range b.rounds {
		fmt.Printf("round %d of %d\n", round+1, b.rounds)
		for i, j := range jobs {
			for _, raw := range []bool{round%2 == 0, round%2 != 0} { // the order alternates
				r, err := b.one(ctx, j, raw)
				if err != nil {
					return err
				}
				if raw {
					file[i] = append(file[i], r)
				} else {
					target[i] = append(target[i], r)
				}
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nmedians of %d rounds; ratio = target / raw file within a round (least to most)\n", b.rounds)
	fmt.Fprintln(w, "job\tdepth\ttarget IOPS\tMB/s\tp50 us\traw file IOPS\tMB/s\tp50 us\tIOPS ratio\t")
	for i, j := range jobs {
		t, f := median(target[i]), median(file[i])
		low, mid, high := ratios(target[i], file[i])
		fmt.Fprintf(w, "%s %s\t%d\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\t%.0f\t%.2f (%.2f-%.2f)\t\n",
			j.pattern, j.block, j.depth, t.IOPS, t.MBps, t.P50, f.IOPS, f.MBps, f.P50, mid, low, high)
	}
	return w.Flush()
}

// median is the result of the median IOPS.
func median(r []result) result {
	s := slices.Clone(r)
	slices.SortFunc(s, func(a, b result) int { return int(a.IOPS - b.IOPS) })
	return s[len(s)/2]
}

func ratios(a, b []result) (low, mid, high float64) {
	q := make([]float64, len(a))
	for i := range a {
		q[i] = a[i].IOPS / b[i].IOPS
	}
	slices.Sort(q)
	return q[0], q[len(q)/2], q[len(q)-1]
}
