package main

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/admin"
)

func TestVersionSaysWhatTheDaemonWasBuiltWith(t *testing.T) {
	root, out := newRoot(), &bytes.Buffer{}
	root.SetArgs([]string{"--version"})
	root.SetOut(out)
	if err := root.Execute(); err != nil || out.String() != "srptd version "+built.Own(admin.Version).String()+"\n" {
		t.Errorf("%q, %v", out, err)
	}
}
