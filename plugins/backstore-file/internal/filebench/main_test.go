package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/plugins/internal/uring"
)

func disk(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachLineIsAnsweredWithItsMeasurement(t *testing.T) {
	if err := uring.Probe(); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := serve(disk(t, 1<<20), strings.NewReader("1 2000000\n32 2000000\n"), &out); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := json.NewDecoder(&out); d.More(); n++ {
		var a answer
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		least := []int{1, 32}[n]
		if a.Elapsed < 2*time.Millisecond || len(a.Took) < least {
			t.Errorf("%d reads in %v", len(a.Took), a.Elapsed)
		}
	}
	if n != 2 {
		t.Errorf("%d answers", n)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	if err := uring.Probe(); err != nil {
		t.Skip(err)
	}
	path := disk(t, 8192)
	for _, line := range []string{"0 1000", "257 1000", "many", "1"} {
		if err := serve(path, strings.NewReader(line), &bytes.Buffer{}); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
	if err := serve(disk(t, 100), strings.NewReader(""), &bytes.Buffer{}); err == nil {
		t.Error("a file of less than a block is accepted")
	}
	if err := serve(path+".absent", strings.NewReader(""), &bytes.Buffer{}); err == nil {
		t.Error("no file is accepted")
	}
}
