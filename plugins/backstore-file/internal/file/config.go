package file

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
)

// config is the plugin's configuration. Its keys are:
//
//	path        the file or block device; required
//	size        with a unit, as 10GiB; creates a sparse file if path does not exist
//	block_size  512 (default) or 4096
//	direct      auto (default): direct I/O if the file system permits it; on: refuse to open otherwise; off
//	engine      auto (default): io_uring if the kernel has it; io_uring: refuse to open otherwise; pool
//	read_only   true or false (default)
type config struct {
	path      string
	size      int64
	blockSize int64
	direct    string
	engine    descriptor.Engine
	readOnly  bool
}

// The modes of direct.
const (
	auto = "auto"
	on   = "on"
	off  = "off"
)

func parseConfig(m map[string]string) (config, error) {
	c := config{blockSize: 512, direct: auto, engine: descriptor.Auto}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := c.set(key, m[key]); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	if c.path == "" {
		return c, fmt.Errorf("path: not set; name a file or a block device")
	}
	return c, nil
}

func (c *config) set(key, value string) (err error) {
	switch key {
	case "path":
		c.path = value
	case "size":
		var n uint64
		if n, err = humanize.ParseBytes(value); err == nil && (n == 0 || n > math.MaxInt64) {
			err = fmt.Errorf("%s is out of range", value)
		}
		c.size = int64(n)
	case "block_size":
		if value != "512" && value != "4096" {
			return fmt.Errorf("%q is neither 512 nor 4096", value)
		}
		c.blockSize, err = strconv.ParseInt(value, 10, 64)
	case "direct":
		c.direct, err = oneOf(value, auto, on, off)
	case "engine":
		c.engine, err = descriptor.ParseEngine(value)
	case "read_only":
		c.readOnly, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("no such setting; there are path, size, block_size, direct, engine, read_only")
	}
	return err
}

func oneOf(value string, choices ...string) (string, error) {
	if slices.Contains(choices, value) {
		return value, nil
	}
	return "", fmt.Errorf("%q is none of %s", value, strings.Join(choices, ", "))
}
