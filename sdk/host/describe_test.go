package host_test

import (
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/host"
)

func TestDescribeFindsOutTheKind(t *testing.T) {
	for kind, o := range map[string]host.ControlOptions{
		host.KindBackstore: {Path: testPlugin},
		host.KindAuth:      {Path: testControl, Args: []string{"auth"}},
		host.KindIOCtx:     {Path: testControl, Args: []string{"ioctx"}},
	} {
		o.Log = logger(t)
		a, err := host.Describe(soon(t), o)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if a.Kind != kind || a.Protocol != 1 || !strings.Contains(a.Runtime, "sdk") || a.Ring != (kind == host.KindBackstore) {
			t.Errorf("%s: %+v", kind, a)
		}
	}
}

func TestDescribeMakesHostileTextFitToBeShown(t *testing.T) {
	a, err := host.Describe(soon(t), host.ControlOptions{Path: testControl, Args: []string{"hostile", "empty-answer"}, Log: logger(t)})
	if err != nil || a.Kind != host.KindAuth || strings.ContainsRune(a.Runtime, 0x1b) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := host.Describe(soon(t), host.ControlOptions{Path: "/bin/true", Log: logger(t)}); err == nil {
		t.Error("a program that is no plugin describes itself")
	}
}
