package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// build says what the programs were built with.
func (e *exam) build() {
	h := e.host
	e.add(OK, "build", "srptctl", "", "%v", h.Build)
	if len(e.daemons) == 0 {
		if path := h.Executable(); path != "" {
			e.buildOf("srptd", path)
		} else {
			e.add(NotChecked, "build", "srptd", "", "it is not in the PATH, nor beside srptctl")
		}
	}
	for _, p := range e.daemons {
		e.buildOf(fmt.Sprintf("srptd (pid %d)", p.pid), fmt.Sprintf("/proc/%d/exe", p.pid))
	}
}

func (e *exam) buildOf(subject, path string) {
	b, err := e.host.BuildOf(path)
	if err != nil {
		e.add(NotChecked, "build", subject, "", "cannot be read%s: %v", e.asRoot(), err)
		return
	}
	e.add(OK, "build", subject, "", "%v", b)
}

// asRoot is what to add where somebody who is not root has seen too little.
func (e *exam) asRoot() string {
	if e.root() {
		return ""
	}
	return " without root"
}

// needs are the versions of Linux that something depends on, and what is missing before.
var needs = []struct {
	major, minor int
	level        Level
	without      string
}{
	{4, 5, Problem, "the roce provider cannot share an address out among its queues (SO_ATTACH_REUSEPORT_CBPF, Linux 4.5)"},
	{5, 0, Warning, "packets are received one by one (UDP_GRO, Linux 5.0)"},
	{5, 1, Warning, "backstore-file works without io_uring (Linux 5.1), slower"},
	{5, 13, Warning, "plugins are not kept to their files (Landlock, Linux 5.13)"},
	{6, 9, Warning, "what a plugin has started may outlive a killed srptd (PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9)"},
}

// kernel compares the kernel with what is depended on.
func (e *exam) kernel() {
	release, err := e.host.read("/proc/sys/kernel/osrelease")
	major, minor, ok := parseRelease(release)
	if err != nil || !ok {
		e.add(NotChecked, "kernel", "Linux", "", "its version %q cannot be read", release)
		return
	}
	good := true
	for _, n := range needs {
		if major < n.major || major == n.major && minor < n.minor {
			good = false
			e.add(n.level, "kernel", "Linux "+release, "use a newer kernel", "%s", n.without)
		}
	}
	if good {
		e.add(OK, "kernel", "Linux "+release, "", "it has all that is used")
	}
	if off, err := e.host.read("/proc/sys/kernel/io_uring_disabled"); err == nil && off != "0" {
		e.add(Warning, "kernel", "io_uring", "sysctl -w kernel.io_uring_disabled=0", "it is switched off (%s): backstore-file works without, slower", off)
	}
	if lsm, err := e.host.read("/sys/kernel/security/lsm"); err == nil && !strings.Contains(","+lsm+",", ",landlock,") {
		e.add(Warning, "kernel", "Landlock", "add landlock to the lsm= list of the kernel's command line",
			"it is not among the security modules in force (%s): plugins are not kept to their files", lsm)
	}
}

// parseRelease reads 6.1.0-18-amd64.
func parseRelease(s string) (major, minor int, ok bool) {
	f := strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if len(f) < 2 || s == "" || s[0] < '0' || s[0] > '9' {
		return 0, 0, false
	}
	major, err := strconv.Atoi(f[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(f[1])
	return major, minor, err == nil
}
