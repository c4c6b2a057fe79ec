package nvme

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
)

// config is the plugin's configuration; see the package comment.
type config struct {
	device   string
	want     identity // the zero value of a field: not asked for
	readOnly bool
	engine   descriptor.Engine
}

func parseConfig(m map[string]string) (config, error) {
	c := config{engine: descriptor.Auto}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := c.set(key, m[key]); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	w := c.want
	switch {
	case c.device != "" || w.nguid != [16]byte{} || w.eui != [8]byte{} || w.serial != "" && w.nsid != 0:
		return c, nil
	case w.serial != "":
		return c, errors.New("nsid: not set; a controller's serial number needs the number of a namespace")
	}
	return c, errors.New("device: not set; set device, or nguid, or eui, or serial and nsid")
}

func (c *config) set(key, value string) (err error) {
	switch key {
	case "device":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("%q is no absolute path", value)
		}
		c.device = value
	case "nguid":
		return parseID(c.want.nguid[:], value)
	case "eui":
		return parseID(c.want.eui[:], value)
	case "serial":
		if c.want.serial = strings.TrimSpace(value); c.want.serial == "" {
			return errors.New("is empty")
		}
	case "nsid":
		var n uint64
		if n, err = strconv.ParseUint(value, 10, 32); err == nil && (n == 0 || n == broadcastNSID) {
			err = fmt.Errorf("%s is no namespace's number", value)
		}
		c.want.nsid = uint32(n)
	case "engine":
		c.engine, err = descriptor.ParseEngine(value)
	case "read_only":
		c.readOnly, err = strconv.ParseBool(value)
	default:
		return errors.New("no such setting; there are device, nguid, eui, serial, nsid, read_only, engine")
	}
	return err
}

// parseID reads an identifier of exactly len(id) bytes, which is not zero.
func parseID(id []byte, value string) error {
	digits := strings.NewReplacer("-", "", ":", "", ".", "", " ", "").Replace(value)
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(id) {
		return fmt.Errorf("%q has not %d hexadecimal digits", value, 2*len(id))
	}
	if isZero(b) {
		return fmt.Errorf("%q is zero, which means that there is none", value)
	}
	copy(id, b)
	return nil
}

func isZero(b []byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }
