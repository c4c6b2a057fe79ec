// Command benchvm compares the Linux kernel's SRP target with srptd: the kernel's initiator in a virtual machine uses one,
// then the other, with the same fio jobs, while the machine's clock counts instructions. It prints a table of both and
// their ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
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

func main() {
	rounds := flag.Int("rounds", 2, "how often each fio job runs")
	limit := flag.Duration("limit", 20*time.Minute, "bound of each target's run")
	verbose := flag.Bool("v", false, "show the guest's console")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	console := io.Discard
	if *verbose {
		console = os.Stderr
	}
	if err := compare(ctx, *rounds, *limit, console); err != nil {
		fmt.Fprintf(os.Stderr, "benchvm: %v\n", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, rounds int, limit time.Duration, console io.Writer) error {
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
	var all [2]results
	for i, target := range []string{"lio", "srptd"} {
		fmt.Fprintf(os.Stderr, "benchvm: run %s\n", target)
		job := e2e.Job{
			Script:  "bench",
			Machine: lab.Machine{CPUs: 1, InstructionShift: instructionShift},
			Limit:   limit,
			Env:     map[string]string{"TARGET": target, "ROUNDS": strconv.Itoa(rounds)},
			Bin:     bin,
		}
		if all[i], err = measure(ctx, guest, job, filepath.Join(dir, target), console); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return table(os.Stdout, all[0], all[1])
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
