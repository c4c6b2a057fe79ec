// Command benchvm compares the Linux kernel's SRP target with srptd: the kernel's initiator in a virtual machine uses one after the
// other, with the same fio jobs, while the machine's clock counts instructions. It prints a table of all and their ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e"
	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

// instructionShift makes an instruction 2 ns long: a CPU of 500 million instructions a second.
const instructionShift = 1

// target is something that the initiator logs in to: its name in the table, and the job's variables.
type target struct {
	name string
	env  map[string]string
}

// targets are what is measured. The first is what the others are compared with. Verbs is on the rxe device that the kernel's target is on.
var targets = []target{
	{"LIO", map[string]string{"TARGET": "lio", "BACKING": "memory"}},
	{"verbs", map[string]string{"TARGET": "srptd", "BACKING": "memory", "PROVIDER": "verbs", "SAME_DEVICE": "yes"}},
	{"verbs-null", map[string]string{"TARGET": "srptd", "BACKING": "null", "PROVIDER": "verbs", "SAME_DEVICE": "yes"}},
	{"roce", map[string]string{"TARGET": "srptd", "BACKING": "memory", "PROVIDER": "roce"}},
}

func main() {
	rounds := flag.Int("rounds", 2, "how often each fio job runs")
	limit := flag.Duration("limit", 20*time.Minute, "bound of each target's run")
	jobs := flag.String("jobs", "", "fio jobs, as in \"4k_rr_q32 256k_w_q4\": block size, random or sequential read or write, depth (default: all)")
	chosen := flag.String("targets", "", "targets, as in \"LIO verbs\" (default: all)")
	keep := flag.String("artifacts", "", "directory to keep what the guests left in (default: none)")
	perf := flag.Bool("perf", false, "record a profile of each fio job with this host's perf, which falsifies the figures: JOB.ROUND.perf in each target's out")
	lun := flag.String("lun", "", "more settings of srptd's LUN, as in \"engine: pool\"")
	verbose := flag.Bool("v", false, "show the guest's console")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	console := io.Discard
	if *verbose {
		console = os.Stderr
	}
	run := run{rounds: *rounds, jobs: *jobs, targets: *chosen, lun: *lun, dir: *keep, perf: *perf, limit: *limit, console: console}
	if err := run.compare(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "benchvm: %v\n", err)
		os.Exit(1)
	}
}

// run is what was asked for.
type run struct {
	rounds        int
	jobs, targets string
	lun           string
	dir           string // "" for one that is removed at the end
	perf          bool
	limit         time.Duration
	console       io.Writer
}

func (r *run) compare(ctx context.Context) error {
	chosen, err := choose(r.targets)
	if err != nil {
		return err
	}
	guest, err := lab.Ensure(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if r.dir == "" {
		if r.dir, err = os.MkdirTemp("", "gosrpt-benchvm-"); err != nil {
			return err
		}
		defer os.RemoveAll(r.dir)
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	var all []column
	for _, target := range chosen {
		fmt.Fprintf(os.Stderr, "benchvm: run %s\n", target.name)
		measured, err := measure(ctx, guest, r.job(target.env), filepath.Join(r.dir, target.name), r.console)
		if err != nil {
			return fmt.Errorf("%s: %w", target.name, err)
		}
		all = append(all, column{target.name, measured})
	}
	return table(os.Stdout, all)
}

// prepare builds what runs in the guest.
func (r *run) prepare(ctx context.Context) error {
	if r.perf {
		if err := layProfiler(ctx, filepath.Join(r.dir, "profiler")); err != nil {
			return err
		}
	}
	return e2e.Build(ctx, filepath.Join(r.dir, "bin"))
}

func (r *run) job(env map[string]string) e2e.Job {
	env = maps.Clone(env)
	env["ROUNDS"], env["JOBS"] = strconv.Itoa(r.rounds), r.jobs
	env["LUN_SETTINGS"] = r.lun
	job := e2e.Job{
		Script:  "bench",
		Machine: lab.Machine{CPUs: 1, InstructionShift: instructionShift},
		Limit:   r.limit,
		Env:     env,
		Bin:     filepath.Join(r.dir, "bin"),
	}
	if r.perf {
		job.Suite = filepath.Join(r.dir, "profiler")
	}
	return job
}

// measure runs the job and reads what it measured.
func measure(ctx context.Context, guest *lab.Guest, job e2e.Job, dir string, console io.Writer) (results, error) {
	report, err := e2e.Run(ctx, guest, job, dir, console)
	if err != nil {
		return nil, fmt.Errorf("%w; failed: %v", err, report.Failed)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out/bench.csv"))
	if err != nil {
		return nil, err
	}
	return parseResults(string(b))
}
