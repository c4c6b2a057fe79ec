package main

import (
	"context"
	"errors"
)

// openInfiniBand opens the way to an agent on an InfiniBand subnet: a port for the responses of the class, the address of
// the agent, and lines of dgid, pkey and service_id for where it is.
func openInfiniBand(context.Context, infiniBand) (route, error) {
	return route{}, usageError{errors.New("--ca asks over an InfiniBand adapter, and this srptctl was built without verbs; " +
		"build it with -tags verbs (it needs cgo and libibumad), or ask an address")}
}
