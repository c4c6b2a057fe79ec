package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// usage is what processes have used since their start.
type usage struct {
	cpu      time.Duration
	switches uint64 // voluntary context switches: sleeps
}

func (u usage) sub(v usage) usage { return usage{u.cpu - v.cpu, u.switches - v.switches} }

// usageOf sums over every thread of the processes that lives. Threads of Go programs do.
func usageOf(pids ...int) (usage, error) {
	var sum usage
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(tasks) == 0 {
			return sum, fmt.Errorf("process %d has no threads to measure: %v", pid, err)
		}
		for _, task := range tasks {
			sum.cpu += time.Duration(field(filepath.Join(task, "schedstat"), ""))
			sum.switches += field(filepath.Join(task, "status"), "voluntary_ctxt_switches:")
		}
	}
	return sum, nil
}

// field is the number after a word in a file, or the first number. A thread that has ended counts nothing.
func field(path, word string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	if word != "" {
		for line := range bytes.Lines(b) {
			if rest, ok := bytes.CutPrefix(line, []byte(word)); ok {
				b = rest
				break
			}
		}
	}
	f := bytes.Fields(b)
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(f[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
