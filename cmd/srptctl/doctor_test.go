package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestDoctorAsksTheDaemonAtTheSocket(t *testing.T) {
	socket := serveFixed(t)
	out, _ := ctl(t, "doctor", "--config", "/dev/null", "--socket", socket) // whether this host is well is not the question
	for _, want := range []string{socket, "srptd v1 answers", "kernel", "problem", "not checked"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = ctl(t, "doctor", "--config", "/dev/null", "-o", "json")
	var got struct {
		Findings []struct{ Level, Check, Subject, What string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Findings) < 10 || got.Findings[0].Subject != "srptctl" {
		t.Errorf("%v\n%s", err, out)
	}
	d, err := askDaemon(t.Context(), socket)
	if err != nil || d.PID != os.Getpid() || d.Version != "v1" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestDoctorExitsWithOneIfThereIsAProblem(t *testing.T) {
	out, err := ctl(t, "doctor", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if exitCode(err) != exitFailed || !strings.Contains(out, "no such file") || !strings.HasPrefix(err.Error(), "found ") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"doctor", "me"}, {"doctor", "-o", "xml"}, {"doctor", "--no-such-flag"}} {
		if _, err := ctl(t, args...); exitCode(err) != exitUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestSocketThatNobodyServesIsToldFromOneThatThereIsNot(t *testing.T) {
	dir := t.TempDir()
	if _, err := askDaemon(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := askDaemon(t.Context(), stale); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}
