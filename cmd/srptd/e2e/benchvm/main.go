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

// instructionShift makes an instruction 8 ns long: a CPU of 125 million instructions a second.
const instructionShift = 3

// targets are what is measured. The first is what the others are compared with. Verbs is on the rxe device that the kernel's target is on.
var targets = []struct {
	name string
	env  map[string]string
}{
	{"LIO", map[string]string{"TARGET": "lio", "BACKING": "memory"}},
	{"verbs", map[string]string{"TARGET": "srptd", "BACKING": "memory", "PROVIDER": "verbs", "SAME_DEVICE": "yes"}},
	{"verbs-null", map[string]string{"TARGET": "srptd", "BACKING": "null", "PROVIDER": "verbs", "SAME_DEVICE": "yes"}},
	{"roce", map[string]string{"TARGET": "srptd", "BACKING": "memory", "PROVIDER": "roce"}},
}

func main() {
	rounds := flag.Int("rounds", 2, "how often each fio job runs")
	limit := flag.Duration("limit", 20*time.Minute, "bound of each target's run")
	jobs := flag.String("jobs", "", "fio jobs, as in \"4k_rr_q32 256k_w_q4\": block size, random or sequential read or write, depth (default: all)")
	verbose := flag.Bool("v", false, "show the guest's console")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	console := io.Discard
	if *verbose {
		console = os.Stderr
	}
	if err := compare(ctx, *rounds, *jobs, *limit, console); err != nil {
		fmt.Fprintf(os.Stderr, "benchvm: %v\n", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, rounds int, jobs string, limit time.Duration, console io.Writer) error {
	guest, err := lab.Ensure(ctx, os.Stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gosrpt-benchvm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	if err := e2e.Build(ctx, bin); err != nil {
		return err
	}
	var all []column
	for _, target := range targets {
		fmt.Fprintf(os.Stderr, "benchvm: run %s\n", target.name)
		env := maps.Clone(target.env)
		env["ROUNDS"], env["JOBS"] = strconv.Itoa(rounds), jobs
		job := e2e.Job{
			Script:  "bench",
			Machine: lab.Machine{CPUs: 1, InstructionShift: instructionShift},
			Limit:   limit,
			Env:     env,
			Bin:     bin,
		}
		measured, err := measure(ctx, guest, job, filepath.Join(dir, target.name), console)
		if err != nil {
			return fmt.Errorf("%s: %w", target.name, err)
		}
		all = append(all, column{target.name, measured})
	}
	return table(os.Stdout, all)
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
