package doctor

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestBuffersCountUnlessTheDaemonMayExceedThem(t *testing.T) {
	f := healthy(t)
	f.put("/proc/sys/net/core/rmem_max", "212992")
	f.check("buffers", "ok net.core.rmem_max: 208 KiB are less than the 32 MiB that are asked for, and srptd may exceed them (CAP_NET_ADMIN)",
		"ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	small := "warning net.core.rmem_max: 208 KiB are granted of the 32 MiB that are asked for: a burst of initiators' packets is lost and sent again -> sysctl -w net.core.rmem_max=33554432"
	f.UID = 1000
	f.check("buffers", small, "ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	f.UID = 0
	f.runs(9) // which has no privilege, although we have
	f.check("buffers", small, "ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	f.put("/proc/9/status", "CapEff:\t0000000000001000\n")
	f.put("/proc/sys/net/core/wmem_max", "zero")
	f.check("buffers", "ok net.core.rmem_max: 208 KiB are less than the 32 MiB that are asked for, and srptd may exceed them (CAP_NET_ADMIN)",
		`not checked net.core.wmem_max: cannot be read: strconv.ParseUint: parsing "zero": invalid syntax`)
	f.remove("/proc/sys/net/core")
	f.check("buffers", "not checked net.core.rmem_max: not to be seen in this network namespace", "not checked net.core.wmem_max: not to be seen in this network namespace")
}

func TestMemlockIsHeldAgainstWhatIsLocked(t *testing.T) {
	f := healthy(t)
	f.runs(9)
	f.check("memlock", "ok roce: nothing is locked by this provider, whatever the limit is")
	f.cfg.Provider = "verbs" // 64 MiB for the target, 64 MiB for disk0
	short := "8.0 MiB may be locked, and the configuration locks 128 MiB -> "
	daemon := "problem srptd (pid 9): " + short + "prlimit --pid 9 --memlock=unlimited, or LimitMEMLOCK=infinity in its unit"
	f.check("memlock", daemon)
	const etc, unit = "/etc/systemd/system/srptd.service", "LimitMEMLOCK=infinity in its [Service], systemctl daemon-reload, and a restart"
	f.put(etc, "[Service]\nExecStart=/usr/sbin/srptd\n")
	f.check("memlock", "warning "+etc+": the unit sets no limit, so that systemd's holds, of 8 MiB -> LimitMEMLOCK=infinity in its [Service]", daemon)
	f.put(etc, "[Service]\nLimitMEMLOCK=8M:infinity\n")
	f.check("memlock", "problem "+etc+": "+short+unit, daemon)
	f.put(etc+".d/limit.conf", "[Service]\nLimitMEMLOCK = 1\nLimitMEMLOCK=infinity\n")
	f.put("/proc/9/limits", "Max locked memory         unlimited            unlimited            bytes\n")
	f.check("memlock", "ok "+etc+".d/limit.conf: no limit", "ok srptd (pid 9): no limit")
	f.put(etc+".d/limit.conf", "LimitMEMLOCK=99999999999999T")
	f.put("/proc/9/limits", "Max open files 1 2 files\n")
	f.check("memlock", "warning "+etc+".d/limit.conf: LimitMEMLOCK=99999999999999T is not understood -> LimitMEMLOCK=infinity",
		"not checked srptd (pid 9): cannot be read: /proc/9/limits does not tell the limit of locked memory")
	f = healthy(t)
	f.cfg.Provider, f.UID, f.cfg.LUNs[0].Arena = "verbs", 1000, 1<<20
	f.check("memlock", "problem this shell: 8.0 MiB may be locked, and the configuration locks 65 MiB -> ulimit -l unlimited, as root, or a line in /etc/security/limits.d")
	f.Memlock = func() (uint64, error) { return 65 << 20, nil }
	f.check("memlock", "ok this shell: 65 MiB of the 65 MiB that the configuration locks")
}

func TestNothingIsReadWithoutBound(t *testing.T) {
	f := healthy(t)
	f.put("/sys/big", strings.Repeat("x", maxFile+1))
	if _, err := f.read("/sys/big"); err == nil {
		t.Error("a file without end was read")
	}
	if err := syscall.Mkfifo(f.Root+"/sys/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := f.read("/sys/pipe"); s != "" && err == nil {
		t.Error(s)
	}
	out, err := output(t.Context(), "head", "-c", fmt.Sprint(maxToolOut+1), "/dev/zero")
	if err == nil {
		t.Errorf("a tool's %d bytes were read", len(out))
	}
	if _, err := output(t.Context(), "no-such-tool"); err == nil {
		t.Error("a tool that there is not was run")
	}
}
