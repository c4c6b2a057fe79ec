//go:build !verbs

package main

import (
	"context"
	"errors"

	"github.com/gosrpt/gosrpt/core/discover"
)

// openInfiniBand opens the way to an agent on an InfiniBand subnet.
func openInfiniBand(context.Context, infiniBand, discover.Config) (route, error) {
	return route{}, usageError{errors.New("--ca asks over an InfiniBand adapter, and this srptctl was built without verbs; " +
		"build it with -tags verbs (it needs cgo and libibumad), or ask an address")}
}
