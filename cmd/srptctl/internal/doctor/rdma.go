package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelTarget looks for the kernel's own SRP target, which takes what is srptd's.
func (e *exam) kernelTarget() {
	const check = "kernel target"
	level, taken := Warning, "every port of an adapter that comes" // without adapters it takes nothing
	if list := e.adapterPorts(); len(list) > 0 {
		level, taken = Problem, strings.Join(list, ", ")
	}
	ports := e.host.glob("/sys/kernel/config/target/srpt/*")
	ports = deleteName(ports, "discovery_auth")
	switch {
	case len(ports) > 0:
		e.add(level, check, "LIO", "targetcli clearconfig confirm=True, or take /srpt out of it; then modprobe -r ib_srpt",
			"the kernel's target serves SRP at %s", path.Base(ports[0]))
	case e.host.exists("/sys/module/ib_srpt"):
		e.add(level, check, "ib_srpt", "modprobe -r ib_srpt; echo blacklist ib_srpt > /etc/modprobe.d/gosrpt.conf",
			"it is loaded, and has the Device Management class (discovery) of %s in srptd's place; logins by address work meanwhile", taken)
	default:
		e.add(OK, check, "ib_srpt", "", "not loaded")
	}
}

func deleteName(paths []string, name string) []string {
	var out []string
	for _, p := range paths {
		if path.Base(p) != name {
			out = append(out, p)
		}
	}
	return out
}

// adapters lists the RDMA devices of the kernel.
func (e *exam) adapters() []string { return e.host.glob("/sys/class/infiniband/*") }

// adapterPorts names the ports of all adapters.
func (e *exam) adapterPorts() (names []string) {
	for _, a := range e.adapters() {
		for _, p := range e.host.glob(a + "/ports/*") {
			names = append(names, portName(a, p))
		}
	}
	return names
}

// portName names a port by the adapter's directory and its own.
func portName(adapter, port string) string { return path.Base(adapter) + " port " + path.Base(port) }

// rdma looks at RDMA devices, and at what userspace needs to reach them.
func (e *exam) rdma() {
	const check = "rdma"
	list := e.adapters()
	if len(list) == 0 {
		e.add(OK, check, "adapters", "", "there is none; the roce provider needs none")
		return
	}
	if !e.host.Build.Verbs {
		e.add(OK, check, "adapters", "", "they are used through their network interfaces: this build has no verbs provider")
	}
	level := Warning
	if e.cfg != nil && e.cfg.Provider == "verbs" {
		level = Problem
	}
	var unseen []string
	for _, a := range list {
		e.node(level, a, "/sys/class/infiniband_verbs/uverbs*", "ib_uverbs")
		if e.infiniBand(a) || e.takesMADs(a) {
			e.node(level, a, "/sys/class/infiniband_mad/umad*", "ib_umad")
		}
		for _, p := range e.host.glob(a + "/ports/*") {
			if name := portName(a, p); e.port(name, p) {
				unseen = append(unseen, name)
			}
		}
	}
	if len(unseen) > 0 {
		e.add(Warning, check, strings.Join(unseen, ", "), "give initiators the lines of srptctl connect-info, or of srptctl discover",
			"initiators' srp_daemon does not look here: only the kernel can set a port's IsDeviceManagementSupported bit, and no program")
	}
	e.deviceFile(level, "rdma_cm", "/dev/infiniband/rdma_cm", "rdma_ucm")
}

func (e *exam) infiniBand(adapter string) bool {
	for _, p := range e.host.glob(adapter + "/ports/*") {
		if link, err := e.host.read(p + "/link_layer"); err == nil && link == "InfiniBand" {
			return true
		}
	}
	return false
}

// takesMADs tells whether the provider verbs asks for the management datagrams of an adapter: of all but those of iWARP, which has none.
func (e *exam) takesMADs(adapter string) bool {
	kind, err := e.host.read(adapter + "/node_type")
	return e.cfg != nil && e.cfg.Provider == "verbs" && err == nil && strings.HasPrefix(kind, "1:")
}

// node looks for the device files of an adapter in a class.
func (e *exam) node(level Level, adapter, class, module string) {
	name := path.Base(adapter)
	found := false
	for _, c := range e.host.glob(class) {
		if dev, err := e.host.read(c + "/ibdev"); err == nil && dev == name {
			found = true
			e.deviceFile(level, name, "/dev/infiniband/"+path.Base(c), module)
		}
	}
	if !found {
		e.add(level, "rdma", name, "modprobe "+module, "the kernel has made no device file for it: %s is not loaded", module)
	}
}

// deviceFile looks whether a device file is there and may be used.
func (e *exam) deviceFile(level Level, subject, file, module string) {
	switch err := unix.Access(e.host.path(file), unix.R_OK|unix.W_OK); {
	case err == nil:
		e.add(OK, "rdma", subject, "", "%s can be used", file)
	case errors.Is(err, fs.ErrPermission) && !e.root():
		e.add(level, "rdma", subject, "chgrp rdma "+file+"; chmod g+rw "+file, "%s may not be used by this user; by root it may", file)
	case errors.Is(err, fs.ErrNotExist):
		e.add(level, "rdma", subject, "modprobe "+module, "%s is missing", file)
	default:
		e.add(level, "rdma", subject, "", "%s cannot be used: %v", file, err)
	}
}

// deviceManagement is IsDeviceManagementSupported in a port's capability mask (IBTA vol 1, 14.2.5.6).
const deviceManagement = 1 << 19

// port looks at a port of an adapter. unseen tells that it is InfiniBand's and without the bit by which targets are found.
func (e *exam) port(name, dir string) (unseen bool) {
	if link, err := e.host.read(dir + "/link_layer"); err != nil || link != "InfiniBand" {
		return false
	}
	state, err := e.host.read(dir + "/state")
	number, word, _ := strings.Cut(state, ":")
	switch word = cmp.Or(strings.TrimSpace(word), "unknown"); {
	case err != nil:
		e.add(NotChecked, "rdma", name, "", "its state cannot be read: %v", err)
	case number == "4":
		e.add(OK, "rdma", name, "", "active")
	case number == "2" || number == "3":
		e.add(Problem, "rdma", name, "start a subnet manager, on a switch or here: systemctl start opensm", "it is %s: no subnet manager has brought it up", word)
	default:
		e.add(Problem, "rdma", name, "look at the cable, and at the switch's port", "it is %s", word)
	}
	mask, err := e.host.read(dir + "/cap_mask")
	n, perr := strconv.ParseUint(strings.TrimPrefix(mask, "0x"), 16, 32)
	return err == nil && perr == nil && n&deviceManagement == 0
}
