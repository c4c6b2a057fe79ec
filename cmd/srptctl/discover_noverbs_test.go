//go:build !verbs

package main

import (
	"strings"
	"testing"
)

func TestDiscoverWithoutVerbsSaysWhatToBuild(t *testing.T) {
	_, err := ctl(t, "discover", "--ca", "mlx5_0", "--lid", "7")
	if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "without verbs; build it with -tags verbs") {
		t.Error(err)
	}
}
