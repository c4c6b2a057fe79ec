package doctor

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// process is a running srptd.
type process struct {
	pid int
}

// comm is the name of a process.
func (h *Host) comm(pid int) string {
	name, err := h.read(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return name
}

// pids lists the processes.
func (h *Host) pids() []int {
	var list []int
	for _, name := range h.list("/proc") {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list
}

// daemons finds the processes of srptd. Its wardens and launchers, which have its executable, are no daemons: they have
// one as an ancestor.
func (h *Host) daemons() []process {
	var list []process
	for _, pid := range h.pids() {
		if h.comm(pid) != "srptd" {
			continue
		}
		parent := slices.IndexFunc(list, func(p process) bool { return p.pid == h.parent(pid) })
		if parent < 0 {
			list = append(list, process{pid})
		}
	}
	return list
}

// status is the value of a line of /proc/PID/status.
func (h *Host) status(pid int, key string) string {
	text, err := h.read(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (h *Host) parent(pid int) int {
	n, err := strconv.Atoi(h.status(pid, "PPid"))
	if err != nil {
		return 0
	}
	return n
}

// Capabilities that make limits not count (capabilities(7)).
const (
	capNetAdmin = 12
	capIPCLock  = 14
)

// capable tells whether a process has a capability.
func (h *Host) capable(pid, capability int) bool {
	set, err := strconv.ParseUint(h.status(pid, "CapEff"), 16, 64)
	return err == nil && set>>capability&1 == 1
}

// memlockOf is a process's limit of locked memory, in bytes.
func (h *Host) memlockOf(pid int) (uint64, error) {
	text, err := h.read(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Max locked memory")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) > 0 && f[0] == "unlimited" {
			return math.MaxUint64, nil
		}
		if len(f) > 0 {
			return strconv.ParseUint(f[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/limits does not tell the limit of locked memory", pid)
}

// owners finds which process has each of some sockets, as far as that may be looked at.
func (h *Host) owners(inodes map[uint64]bool) map[uint64]int {
	found := map[uint64]int{}
	for _, pid := range h.pids() {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		for _, fd := range h.list(dir) {
			to, err := os.Readlink(h.path(dir + "/" + fd))
			if err != nil {
				continue
			}
			digits, ok := strings.CutPrefix(to, "socket:[")
			n, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 64)
			if _, known := found[n]; ok && err == nil && inodes[n] && !known {
				found[n] = pid
			}
		}
		if len(found) == len(inodes) {
			return found
		}
	}
	return found
}
