package main

import (
	"runtime"
	"testing"
)

func TestSchedulerHasAProcessorToSpareUnlessTheEnvironmentSaysHowMany(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "1")
	if spareProcessor(); runtime.GOMAXPROCS(0) != 1 {
		t.Error("GOMAXPROCS of the environment was overruled")
	}
	t.Setenv("GOMAXPROCS", "")
	if spareProcessor(); runtime.GOMAXPROCS(0) != 2 {
		t.Errorf("%d processors on a machine with one CPU", runtime.GOMAXPROCS(0))
	}
	runtime.GOMAXPROCS(5)
	if spareProcessor(); runtime.GOMAXPROCS(0) != 5 {
		t.Error("a machine with more CPUs lost some")
	}
}
