package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDaemonWithOneLUNTellsTheOperatorWhatThereIs(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--lun", "lun=3,name=disk3,path=DIR/disk,size=8MiB")
	dial(t, d.site, 3)
	wants := map[string][]string{
		"status": {"up ", "provider roce", hex64(testIDExt), hex64(testIOCGUID), d.service().String(), "listening", "lun 3", "disk3",
			"backstore-file", "8.0 MiB", "read-write", "ready", "logins_accepted"},
		"sessions":     {"SESSION", "0x0200000000", "live"},
		"connect-info": {"id_ext=" + hex64(testIDExt) + ",ioc_guid=" + hex64(testIOCGUID) + ",dest=" + d.service().String()},
	}
	for cmd, want := range wants {
		out, code := d.ctl(t, cmd)
		if code != 0 {
			t.Errorf("%s: exit code %d: %s", cmd, code, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not say %q:\n%s", cmd, w, out)
			}
		}
		out, code = d.ctl(t, "-o", "json", cmd)
		if code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("%s as JSON: exit code %d:\n%s", cmd, code, out)
		}
	}
}

func TestOperatorEndsASessionAndItsInitiatorIsTold(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	s := dial(t, d.site, 0)
	list := d.sessions(t)
	if len(list) != 1 || len(list[0].Channels) != 2 {
		t.Fatalf("sessions: %v", list)
	}
	if out, code := d.ctl(t, "logout", "1"); code != 0 {
		t.Fatalf("logout: exit code %d: %s", code, out)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "logged out by the target") {
		t.Errorf("the initiator's session ended with: %v", err)
	}
	eventually(t, "the session is gone", func() bool { return len(d.sessions(t)) == 0 })
	if _, code := d.ctl(t, "logout", "1"); code != 1 {
		t.Errorf("logging out nobody: exit code %d, want 1", code)
	}
	dial(t, d.site, 0)
}

func TestConfigurationPrintedAndReadBackIsTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=1,name=a,path=/x,size=1GiB,read_only=true,arena=32MiB,serial=S1", "--lun", "lun=2,name=B,path=/y",
		"--auth-plugin", "auth", "--auth-config", "list=/x/Y,Odd_Key=0017", "--ioctx-plugin", "ioctx", "--ioctx-config", "credits=8", "--session-dead-peer", "12500ms", "--roce-segmentation=false")
	first, code := runBinary(t, "srptd", append([]string{"config"}, s.args...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, first)
	}
	file := s.file("c.yaml")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	second, code := runBinary(t, "srptd", "config", "--config", file)
	if code != 0 || second != first {
		t.Errorf("exit code %d, printed\n%s\nread back\n%s", code, first, second)
	}
	for _, want := range []string{hex64(testIDExt), hex64(testIOCGUID), s.addr.String(), "12.5s", "serial: S1", "list: /x/Y", `Odd_Key: "0017"`, `credits: "8"`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
}

func TestConfigurationErrorsExitWithTwoAndNameEveryProblem(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	const bad = "port: 70000\nlunz: []\nroce: {ack: 3}\nlog: {level: loud}\nluns: [{lun: 1, name: a}, {lun: 1, name: A, path: /x}]\n"
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--config", file}, {"config", "--config", file}} {
		out, code := runBinary(t, "srptd", args...)
		if code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, exitUsage)
		}
		for _, want := range []string{file, "port", "lunz (line 2)", "roce.ack (line 3)", "log.level", "LUN 1 is taken", "letter case", "luns[1].path (line 5)"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, out)
			}
		}
	}
	for _, args := range [][]string{{"--nonsense"}, {"config", "extra"}, {"extra"}, {"--port", "x"}} {
		if out, code := runBinary(t, "srptd", args...); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d: %s", args, code, exitUsage, out)
		}
	}
}

func TestSecondDaemonSaysAtOnceWhatTheFirstHolds(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	cases := map[string]struct {
		more []string
		want []string
	}{
		"the same configuration": {nil, []string{d.addr.String(), "in use"}},
		"the same address":       {[]string{"--admin-socket", d.file("other")}, []string{d.addr.String(), "in use"}},
		"the same socket":        {[]string{"--listen", loopback().String()}, []string{d.socket, "another daemon", "admin.socket"}},
	}
	for name, c := range cases {
		begin := time.Now()
		out, code := runBinary(t, "srptd", append(append([]string{}, d.args...), c.more...)...)
		if code != exitFailed {
			t.Errorf("%s: exit code %d, want %d", name, code, exitFailed)
		}
		if d := time.Since(begin); d > 15*time.Second { // it does not wait for the store, which the first holds as well
			t.Errorf("%s: it took %v", name, d)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: does not say %q:\n%s", name, w, out)
			}
		}
	}
	if out, code := d.ctl(t, "status"); code != 0 {
		t.Errorf("the first daemon has suffered: exit code %d: %s", code, out)
	}
	dial(t, d.site, 0)
}

func TestMissingPluginIsSaidAndHealsWhenItIsThere(t *testing.T) {
	t.Parallel()
	long(t)
	d := newDaemon(t, "--lun", "lun=0,path=DIR/disk,size=8MiB", "--lun", "lun=1,name=late,plugin=absent,path=DIR/late,size=8MiB")
	l := d.lun(t, 1)
	for _, want := range []string{"absent", d.pluginDir()} {
		if !strings.Contains(l.State, want) {
			t.Errorf("LUN 1 is %q, which does not say %q", l.State, want)
		}
	}
	s := dial(t, d.site, 0)
	if err := s.TestUnitReady(soon(t), lunOf(1)); err == nil {
		t.Error("a LUN without a plugin is ready")
	}
	d.install(t, "absent")
	within(t, retryOpen+seconds(10), "LUN 1 is ready", func() bool { return d.lun(t, 1).State == "ready" })
	if err := s.TestUnitReady(soon(t), lunOf(1)); err != nil {
		t.Errorf("LUN 1: %v", err)
	}
}

func TestSIGTERMEndsEverythingInOrder(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	s := dial(t, d.site, 0)
	pid := d.process(t, "backstore-file")
	d.stop(t)
	if _, err := os.Stat(d.socket); !os.IsNotExist(err) {
		t.Errorf("the control socket is still there: %v", err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("plugin process %d is still there: %v", pid, err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "logged out by the target") {
		t.Errorf("the initiator's session ended with: %v", err)
	}
	if left, err := filepath.Glob(d.file("*.sock")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A host without any network interface is a normal one.
func TestDaemonWithoutAnyInterfaceRunsAndEndsInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, diskLUNs()...)
	s.adjust = newNamespace
	s.args = append(s.args, "--roce-interfaces", "eth*,!eth1")
	i := slices.Index(s.args, "--listen")
	s.args = slices.Delete(s.args, i, i+2)
	d := s.start(t)
	if f := d.fabric(t); len(f.Hcas) != 0 {
		t.Errorf("HCAs %v", f.Hcas)
	}
	if out, _ := d.ctl(t, "fabric"); !strings.Contains(out, "there are no HCAs") || !strings.Contains(out, "eth* !eth1") {
		t.Errorf("fabric:\n%s", out)
	}
	if n := strings.Count(d.out.String(), "no network interface to serve yet"); n != 1 {
		t.Errorf("the log says %d times that there is none", n)
	}
	d.stop(t)
}

func TestSecondSIGTERMKills(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	pid := d.process(t, "backstore-file")
	freeze(t, pid) // so that the orderly end takes long
	d.signal(t, syscall.SIGTERM)
	d.expectNotice(t, "STOPPING=1")
	d.signal(t, syscall.SIGTERM)
	if code := d.wait(t); code != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %d, want SIGTERM", code)
	}
}

func TestSIGTERMDuringTheStartEndsInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	hold := holdStore(t, s.file("disk"), 8<<20)
	defer hold.Close()
	d := s.launch(t)
	s.process(t, "backstore-file") // it waits for the store
	d.stop(t)
}

func TestKilledDaemonLeavesNothingAndItsStoreOpensAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=0,path=DIR/disk,size=8MiB")
	d := s.start(t)
	l := newLoad(t, dial(t, s, 0), 0, 8)
	if err := l.run(nil, 50); err != nil {
		t.Fatal(err)
	}
	d.signal(t, syscall.SIGKILL)
	d.wait(t)
	within(t, seconds(10), "the plugin process is gone", func() bool { return len(s.processes(t, "")) == 0 })
	s.start(t)
	if state := s.lun(t, 0).State; state != "ready" {
		t.Errorf("after the restart the LUN is %q", state)
	}
	l.use(t, dial(t, s, 0), 8)
	l.verifyAll(t)
}
