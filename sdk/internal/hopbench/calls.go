package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// callsID numbers the kernel's trace point at the beginning of every system call.
const callsID = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"

// callCounter counts the system calls of processes: every thread's, and those of threads that they start.
type callCounter struct{ fds []int }

// countCalls begins to count. Its error says that this machine does not let it.
func countCalls(pids ...int) (*callCounter, error) {
	id, err := tracePoint()
	if err != nil {
		return nil, err
	}
	c := &callCounter{}
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(tasks) == 0 {
			c.close()
			return nil, fmt.Errorf("process %d has no threads: %v", pid, err)
		}
		for _, task := range tasks {
			if err := c.add(filepath.Base(task), id); err != nil {
				c.close()
				return nil, err
			}
		}
	}
	return c, nil
}

func tracePoint() (uint64, error) {
	b, err := os.ReadFile(callsID)
	if err != nil {
		return 0, fmt.Errorf("the kernel's trace points cannot be had: %w", err)
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

func (c *callCounter) add(task string, id uint64) error {
	tid, err := strconv.Atoi(task)
	if err != nil {
		return err
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Size: unix.PERF_ATTR_SIZE_VER5, Bits: unix.PerfBitInherit,
	}
	fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == unix.ESRCH {
		return nil // the thread has ended
	}
	if err != nil {
		return os.NewSyscallError("perf_event_open", err)
	}
	c.fds = append(c.fds, fd)
	return nil
}

// count is how many system calls there have been so far.
func (c *callCounter) count() (uint64, error) {
	var sum uint64
	for _, fd := range c.fds {
		var b [8]byte
		if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
			return 0, fmt.Errorf("reading a counter: %d bytes, %v", n, err)
		}
		sum += binary.NativeEndian.Uint64(b[:])
	}
	return sum, nil
}

func (c *callCounter) close() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
}
