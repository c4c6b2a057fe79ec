package descriptor

import (
	"fmt"

	"github.com/gosrpt/gosrpt/plugins/internal/uring"
)

// Engine is the setting "engine" of a store.
type Engine string

// The engines.
const (
	Auto    Engine = "auto"     // io_uring if the kernel has it
	IOUring Engine = "io_uring" // or do not open
	Pool    Engine = "pool"     // blocking calls
)

// PoolSize is the number of concurrent calls without io_uring.
const PoolSize = 32

// ParseEngine reads the setting.
func ParseEngine(value string) (Engine, error) {
	switch e := Engine(value); e {
	case Auto, IOUring, Pool:
		return e, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s, %s", value, Auto, IOUring, Pool)
}

// UseRing tells whether batches go through io_uring, as the setting and the kernel permit it.
func (e Engine) UseRing() (bool, error) {
	if e == Pool {
		return false, nil
	}
	err := uring.Probe()
	if err != nil && e == IOUring {
		return false, fmt.Errorf("engine io_uring: %w; use engine: auto or pool", err)
	}
	return err == nil, nil
}
