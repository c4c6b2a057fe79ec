package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/gosrpt/gosrpt/core/ioctx"
)

// sendBuffer is what the roce provider asks for, per socket, in bytes.
const sendBuffer = 4 << 20

// buffers compares the socket buffers that roce asks for with what the kernel grants.
func (e *exam) buffers() {
	if e.cfg == nil {
		e.add(NotChecked, "buffers", "sockets", "", "there is no valid configuration that says how large they are to be")
		return
	}
	e.buffer("rmem_max", e.cfg.RoCE.ReceiveBuffer, "a burst of initiators' packets is lost and sent again")
	e.buffer("wmem_max", sendBuffer, "answers are sent in smaller bursts")
}

func (e *exam) buffer(name string, want uint64, otherwise string) {
	sysctl := "net.core." + name
	text, err := e.host.read("/proc/sys/net/core/" + name)
	have, perr := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add(NotChecked, "buffers", sysctl, "", "not to be seen in this network namespace")
	case err != nil || perr != nil:
		e.add(NotChecked, "buffers", sysctl, "", "cannot be read: %v", errors.Join(err, perr))
	case have >= want:
		e.add(OK, "buffers", sysctl, "", "%s of the %s that are asked for", humanize.IBytes(have), humanize.IBytes(want))
	case e.privileged(capNetAdmin):
		e.add(OK, "buffers", sysctl, "", "%s are less than the %s that are asked for, and srptd may exceed them (CAP_NET_ADMIN)",
			humanize.IBytes(have), humanize.IBytes(want))
	default:
		e.add(Warning, "buffers", sysctl, fmt.Sprintf("sysctl -w %s=%d", sysctl, want), "%s are granted of the %s that are asked for: %s",
			humanize.IBytes(have), humanize.IBytes(want), otherwise)
	}
}

// privileged tells whether srptd, the running one or one that is started by who looks, has a capability.
func (e *exam) privileged(capability int) bool {
	if len(e.daemons) > 0 {
		return e.host.capable(e.daemons[0].pid, capability)
	}
	return e.root()
}

// locked is how much memory the configuration locks, in bytes. An adapter pins what it reaches; roce does not.
func (e *exam) locked() uint64 {
	if e.cfg == nil || e.cfg.Provider == "roce" {
		return 0
	}
	plan := ioctx.DefaultPlan()
	sum := plan.ArenaSize // the target's own
	for _, l := range e.cfg.LUNs {
		if l.Arena != 0 {
			sum += l.Arena
		} else {
			sum += plan.ArenaSize
		}
	}
	return sum
}

// memlock compares the limits of locked memory with what is locked.
func (e *exam) memlock() {
	const check = "memlock"
	need := e.locked()
	if need == 0 {
		e.add(OK, check, "roce", "", "nothing is locked by this provider, whatever the limit is")
		return
	}
	switch unit, file, ok := e.unitMemlock(); {
	case !ok:
	case unit == "":
		e.add(Warning, check, file, "LimitMEMLOCK=infinity in its [Service]", "the unit sets no limit, so that systemd's holds, of 8 MiB")
	default:
		n, err := parseLimit(unit)
		if err != nil {
			e.add(Warning, check, file, "LimitMEMLOCK=infinity", "LimitMEMLOCK=%s is not understood", unit)
			break
		}
		e.limit(file, n, need, "LimitMEMLOCK=infinity in its [Service], systemctl daemon-reload, and a restart")
	}
	for _, p := range e.daemons {
		subject := fmt.Sprintf("srptd (pid %d)", p.pid)
		n, err := e.host.memlockOf(p.pid)
		if err != nil {
			e.add(NotChecked, check, subject, "", "cannot be read%s: %v", e.asRoot(), err)
			continue
		}
		if e.host.capable(p.pid, capIPCLock) {
			n = math.MaxUint64
		}
		e.limit(subject, n, need, fmt.Sprintf("prlimit --pid %d --memlock=unlimited, or LimitMEMLOCK=infinity in its unit", p.pid))
	}
	if len(e.daemons) > 0 {
		return
	}
	if n, err := e.host.Memlock(); err == nil && !e.root() {
		e.limit("this shell", n, need, "ulimit -l unlimited, as root, or a line in /etc/security/limits.d")
	}
}

func (e *exam) limit(subject string, have, need uint64, mend string) {
	if have == math.MaxUint64 {
		e.add(OK, "memlock", subject, "", "no limit")
		return
	}
	if have >= need {
		e.add(OK, "memlock", subject, "", "%s of the %s that the configuration locks", humanize.IBytes(have), humanize.IBytes(need))
		return
	}
	e.add(Problem, "memlock", subject, mend, "%s may be locked, and the configuration locks %s", humanize.IBytes(have), humanize.IBytes(need))
}

// unitFiles are the places of the daemon's unit, in systemd's order. What comes later counts.
var unitFiles = []string{"/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system"}

// unitMemlock is the LimitMEMLOCK of the daemon's unit. ok is false if there is no unit.
func (e *exam) unitMemlock() (value, file string, ok bool) {
	var files []string
	for _, dir := range unitFiles {
		if f := dir + "/srptd.service"; e.host.exists(f) {
			files = []string{f} // it replaces the one before
		}
	}
	if len(files) == 0 {
		return "", "", false
	}
	for _, dir := range unitFiles {
		files = append(files, e.host.glob(dir+"/srptd.service.d/*.conf")...)
	}
	for _, f := range files {
		text, err := e.host.read(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if v, found := strings.CutPrefix(strings.TrimSpace(line), "LimitMEMLOCK="); found {
				value, file = strings.TrimSpace(v), f
			}
		}
	}
	if value == "" {
		file = files[0]
	}
	return value, file, true
}

// parseLimit reads a limit as systemd does: infinity, or bytes with K, M, G or T, of which a soft one may come first.
func parseLimit(s string) (uint64, error) {
	soft, _, _ := strings.Cut(s, ":")
	if soft == "infinity" {
		return math.MaxUint64, nil
	}
	scale := uint64(1)
	if i := strings.IndexAny(soft, "KMGT"); i >= 0 && i == len(soft)-1 {
		scale = 1 << (10 * (1 + strings.IndexByte("KMGT", soft[i])))
		soft = soft[:i]
	}
	n, err := strconv.ParseUint(soft, 10, 64)
	if err == nil && n > math.MaxUint64/scale {
		return 0, fmt.Errorf("%s: %w", s, strconv.ErrRange)
	}
	return n * scale, err
}
