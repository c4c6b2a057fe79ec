package examples_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/internal/remote"
)

func TestPluginsInOtherLanguagesPassTheKit(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		for _, blockSize := range []string{"512", "4096"} {
			t.Run(blockSize, func(t *testing.T) {
				b, err := remote.Start(soon(t), remote.Options{Path: e.path, Log: logger(t)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					defer cancel()
					if err := b.Close(ctx); err != nil {
						t.Error(err)
					}
					if end := b.Process().Ending(); end != "exit status 0" || b.Fault() != nil {
						t.Errorf("the plugin ended with %q, its fault is %v", end, b.Fault())
					}
				})
				if ring := e != pythonPlugin; b.Process().Ring() != ring {
					t.Errorf("ring: %v", !ring)
				}
				backstoretest.Test(t, backstoretest.Subject{
					Backstore: b,
					Config: func(t testing.TB) map[string]string {
						c := config(t)
						c["block_size"] = blockSize
						return c
					},
					ReadOnly: func(c map[string]string) map[string]string {
						c = maps.Clone(c)
						c["read_only"] = "true"
						return c
					},
				})
			})
		}
	})
}
