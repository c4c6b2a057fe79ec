package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEnvironmentIsAShellScriptThatQuotes(t *testing.T) {
	script := environment(t.Context(), map[string]string{"A": "it's $HOME `x`", "B": ""})
	cmd := exec.Command("bash", "-c", string(script)+`printf '%s|%s' "$A" "$B"`)
	out, err := cmd.Output()
	if want := "it's $HOME `x`|"; string(out) != want || err != nil {
		t.Errorf("variables %q, %v, want %q", out, err, want)
	}
}

func TestTheJobIsToldToEndBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration]string{
			10 * time.Minute: "export LAB_TIMEOUT=560\n",
			time.Minute:      "export LAB_TIMEOUT=45\n",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if got := string(environment(ctx, nil)); got != want {
				t.Errorf("%v: environment %q, want %q", limit, got, want)
			}
			cancel()
		}
	})
}

func TestArgumentsHaveTheMachinesShape(t *testing.T) {
	g := &Guest{dir: "/guest"}
	line := func(m Machine, disks ...string) string { return strings.Join(g.arguments(m, "/job", disks), " ") }
	tests := []struct {
		name, line string
		want       []string
		not        string
	}{
		{"zero value", line(Machine{}), []string{"-smp 2", "-m 3072", "thread=multi", "pclmulqdq=off"}, "-icount"},
		{"counting instructions", line(Machine{CPUs: 1, InstructionShift: 3}), []string{"-smp 1", "-icount shift=3", "thread=single"}, "pclmulqdq"},
		{"memory", line(Machine{MemoryMiB: 512}), []string{"-m 512"}, "-m 3072"},
		{"disks", line(Machine{}, "/a", "/b"), []string{"id=disk0,file=/a", "id=disk1,file=/b"}, "disk2"},
		{"NVMe and a disk", line(Machine{NVMeMiB: 64}, "/a", "/n"), []string{"id=disk0,file=/a", "id=nvme,file=/n", "-device nvme,serial=gosrptnvme,drive=nvme"}, "disk1"},
		{"cards", line(Machine{WiredPairs: 2}), []string{"-netdev hubport,id=card0-0,hubid=0 -device virtio-net-pci,netdev=card0-0,mac=02:67:6f:73:80:00,romfile=",
			"-netdev hubport,id=card1-1,hubid=1 -device virtio-net-pci,netdev=card1-1,mac=02:67:6f:73:81:01,romfile="}, "card2"},
		{"root never changes", line(Machine{}), []string{"file=/guest/root.img,if=none,format=raw,cache=unsafe,aio=threads,snapshot=on"}, "disk0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, w := range tt.want {
				if !strings.Contains(tt.line, w) {
					t.Errorf("no %q in %s", w, tt.line)
				}
			}
			if strings.Contains(tt.line, tt.not) {
				t.Errorf("%q in %s", tt.not, tt.line)
			}
		})
	}
}

func TestDisksHaveTheirSizesAndAreRemoved(t *testing.T) {
	files, remove, err := makeDisks([]int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size()>>20)
	}
	if !slices.Equal(sizes, []int64{1, 2}) {
		t.Errorf("sizes %v MiB", sizes)
	}
	remove()
	if _, err := os.Stat(filepath.Dir(files[0])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disks are still there: %v", err)
	}
}

func TestAnEndedContextKillsTheMachine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- runKilled(ctx, "sh", []string{"-c", "echo started; exec sleep 600"}, w) }()
	if _, err := r.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the killed command reported success")
		}
	case <-time.After(time.Minute):
		t.Error("the command runs on")
	}
}
