//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

func failed(op, peer string, err error) error { return &rdma.Error{Op: op, Peer: peer, Err: err} }

func (d *Device) fail(op string, err error) error { return failed(op, d.name, err) }

// errno is the error of a call of C, nil for 0.
func errno(code C.int) error {
	if code == 0 {
		return nil
	}
	return unix.Errno(code)
}

// call names the function that failed.
func call(what string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", what, unix.Errno(code))
}

// inUse makes the kernel's answer to a bind that of the seam. Any address against a single one is EADDRNOTAVAIL.
func inUse(err error) error {
	if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("%w: %w", rdma.ErrInUse, err)
	}
	return err
}
