package host_test

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// BenchmarkStart measures a start and an end of a process: as it is, and through the launcher with everything.
func BenchmarkStart(b *testing.B) {
	all := light
	all.Files, all.Deny = &host.Files{}, host.PluginProfile()
	for name, is := range map[string]host.Isolation{"direct": {}, "isolated": all} {
		b.Run(name, func(b *testing.B) {
			a := newArena(b, 4096)
			for b.Loop() {
				p, err := host.Start(context.Background(), host.Options{
					Path: testPlugin, Launch: host.Launch{Isolation: is}, Arena: a, Log: hclog.NewNullLogger(),
				})
				if err != nil {
					b.Fatal(err)
				}
				p.Kill()
				p.Close(context.Background())
			}
		})
	}
}
