// Command hopbench measures what it costs to keep a backstore in a process of its own: the same store behind the
// shared-memory ring, behind descriptors on a unix socket, behind gRPC (single calls and a stream), behind a Go channel and
// called directly; and the file backstore as a plugin beside the same reads in one process.
//
// Both processes run on one CPU, where the figures repeat; the transports take turns, several in each round, and ratios
// are taken within a round. Absolute figures belong to the machine, the ratios are what the gates are held against.
//
//	go run ./sdk/internal/hopbench [-rounds 7] [-time 300ms] [-dir .] [-check]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/plugin"
)

const (
	// pluginEnv makes this executable the plugin that it measures.
	pluginEnv = "HOPBENCH_PLUGIN"
	// pinnedEnv tells the second instance of the measuring side that it runs on one CPU.
	pinnedEnv = "HOPBENCH_PINNED"
	// socketEnv makes this executable the other end of the unix socket.
	socketEnv = "HOPBENCH_SOCKET"
)

func main() {
	if os.Getenv(pluginEnv) != "" {
		plugin.ServeBackstore(nullStores{})
		return
	}
	f := run
	if os.Getenv(socketEnv) != "" {
		f = serveSocket
	}
	if err := f(); err != nil {
		fmt.Fprintln(os.Stderr, "hopbench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 7, "rounds in which every transport is measured once")
	each := flag.Duration("time", 300*time.Millisecond, "time for each measurement")
	free := flag.Bool("free", false, "let the scheduler place both processes; gates are for one CPU")
	where := flag.String("dir", ".", "where to put the file of 128 MiB that the file backstore is measured on")
	check := flag.Bool("check", false, "exit with status 1 if a gate is not met")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *each < time.Millisecond {
		return errors.New("no arguments, at least one round and a millisecond are expected")
	}
	if !*free && os.Getenv(pinnedEnv) == "" {
		return pin()
	}
	dir, err := os.MkdirTemp(*where, ".hopbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := setUp(context.Background(), dir, buildFile(dir))
	if err != nil {
		return err
	}
	defer s.tearDown()
	t, err := measure(s, *rounds, *each)
	if err != nil {
		return err
	}
	t.print(os.Stdout)
	if err := printGates(os.Stdout, t); *check {
		return err
	}
	return nil
}

// pin runs this program again, with all of its threads and children on one CPU.
func pin() error {
	var have, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return err
	}
	cpu := 0
	for !have.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	env := append(os.Environ(), pinnedEnv+"=1", "GOMAXPROCS=2")
	return syscall.Exec("/proc/self/exe", os.Args, env)
}
