package examples_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// BenchmarkRead is one read of 4 KiB at a time out of the page cache, by the plugins of this directory and the file plugin in Go.
func BenchmarkRead(b *testing.B) {
	need(b)
	dir := b.TempDir()
	build := exec.Command("go", "build", "-o", dir, "github.com/gosrpt/gosrpt/plugins/backstore-file")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	inGo := &example{name: "Go", path: filepath.Join(dir, "backstore-file")}
	for _, e := range []*example{inGo, cPlugin, pythonPlugin} {
		b.Run(e.name, func(b *testing.B) {
			c := config(b)
			if e == inGo {
				c["direct"], c["engine"] = "off", "pool"
			}
			a := newArena(b, blockSize)
			q := attach(b, open(b, start(b, e.path, a), c), host.QueueOptions{})
			r := backstore.Request{Op: backstore.OpRead, Data: a.Bytes()[:blockSize]}
			for b.Loop() {
				if c := one(b, q, r); c != backstore.CodeOK {
					b.Fatal(c)
				}
			}
		})
	}
}
