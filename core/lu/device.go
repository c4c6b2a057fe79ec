package lu

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Bounds of Config.
const (
	DefaultMaxTransfer = 4 << 20
	MaxMaxTransfer     = 16 << 20
	DefaultMaxNexuses  = 1024
)

// ErrConfig: a device's configuration is wrong.
var ErrConfig = errors.New("wrong logical unit configuration")

// Config is the configuration of a Device.
type Config struct {
	// Name names the logical unit to the operator.
	Name string
	// Identity is what initiators know it by.
	Identity scsi.Identity
	// MaxTransfer is the longest READ or WRITE in bytes, at most MaxMaxTransfer; a longer one is refused, and the
	// Block Limits page tells. 0 means DefaultMaxTransfer. A smaller limit of the store goes first.
	MaxTransfer uint32
	// Rotation is the medium rotation rate of VPD page B1h: 0 not told, 1 not rotating.
	Rotation uint16
	// MaxNexuses bounds the I_T nexuses that the device keeps state for; 0 means DefaultMaxNexuses. The
	// commands of one more are answered BUSY.
	MaxNexuses int
	// Inventory answers REPORT LUNS; nil lists nothing.
	Inventory Inventory
}

// Inventory is what a device asks about the other logical units of the target. Its method is called in
// the goroutines of all reactors and does not block.
type Inventory interface {
	// AppendLUNs appends the LUN fields that the nexus may use, in ascending order, well known ones left out.
	AppendLUNs(dst []uint64, nexus NexusID) []uint64
}

// Device is one logical unit. Its methods may be called from any goroutine.
type Device struct {
	cfg     Config
	geo     atomic.Pointer[geometry]
	nexuses nexusTable
	stats   deviceStats
}

// geometry is what a device knows of its store. It is replaced as a whole.
type geometry struct {
	info         backstore.Info
	kind         *kind
	capacity     scsi.Capacity
	limits       scsi.BlockLimits
	provisioning scsi.Provisioning
	maxBlocks    uint64
	// chunk is how many bytes a WRITE SAME that becomes plain writes writes at a time.
	chunk uint64
}

// NewDevice returns a device of a store that describes itself as info, which is a store.Guard's. Errors wrap
// ErrConfig and name the device.
func NewDevice(cfg Config, info backstore.Info) (*Device, error) {
	if cfg.MaxTransfer == 0 {
		cfg.MaxTransfer = DefaultMaxTransfer
	}
	if cfg.MaxNexuses == 0 {
		cfg.MaxNexuses = DefaultMaxNexuses
	}
	d := &Device{cfg: cfg}
	d.nexuses.init(cfg.MaxNexuses)
	if err := cfg.check(info); err != nil {
		return nil, fmt.Errorf("logical unit %q: %w", cfg.Name, err)
	}
	d.geo.Store(cfg.measure(info))
	return d, nil
}

func (c *Config) check(info backstore.Info) error {
	if err := c.Identity.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch {
	case c.MaxTransfer < info.BlockSize || c.MaxTransfer > MaxMaxTransfer:
		return fmt.Errorf("max transfer of %d bytes, must be from a block of %d to %d: %w", c.MaxTransfer, info.BlockSize, MaxMaxTransfer, ErrConfig)
	case c.MaxNexuses < 0:
		return fmt.Errorf("%d nexuses: %w", c.MaxNexuses, ErrConfig)
	case info.BlockSize == 0 || info.Blocks == 0:
		return fmt.Errorf("store of %d blocks of %d bytes: %w", info.Blocks, info.BlockSize, ErrConfig)
	}
	return nil
}

func (c *Config) measure(info backstore.Info) *geometry {
	longest := c.MaxTransfer
	if info.MaxTransfer != 0 {
		longest = min(longest, info.MaxTransfer)
	}
	bs := info.BlockSize
	g := &geometry{
		info:      info,
		capacity:  scsi.Capacity{Blocks: info.Blocks, BlockSize: bs, PhysicalBlockSize: info.PhysicalBlockSize},
		maxBlocks: uint64(longest / bs),
	}
	grain := max(info.PhysicalBlockSize/bs, 1)
	optimal := min(info.OptimalTransfer, longest) / bs
	g.limits = scsi.BlockLimits{
		Granularity:     uint16(min(grain, math.MaxUint16)),
		MaxTransfer:     longest / bs,
		OptimalTransfer: optimal - optimal%grain,
	}
	g.usePowers(c, longest)
	return g
}

// Name is the configured name.
func (d *Device) Name() string { return d.cfg.Name }

// Identity is what initiators know the device by.
func (d *Device) Identity() scsi.Identity { return d.cfg.Identity }

// MaxTransfer is the size in bytes of the longest buffer that a task of the device asks its Host for: that of the
// longest READ or WRITE, or of the longest list of LUNs if that is longer.
func (d *Device) MaxTransfer() uint32 {
	return max(d.cfg.MaxTransfer, uint32(scsi.LUNListSize(scsi.MaxLUN+2)))
}

// Info is the store's description in force; zero for a device without a medium.
func (d *Device) Info() backstore.Info { return d.geo.Load().info }

// Update tells the device that its store describes itself anew. Every nexus learns of a change of READ CAPACITY's data, of
// the limits in VPD pages and the commands that there are, or of the values of mode pages, by a unit attention. Errors wrap ErrConfig; the block size cannot change.
func (d *Device) Update(info backstore.Info) error {
	before := d.geo.Load()
	old := before.info
	if err := d.cfg.check(info); err != nil {
		return fmt.Errorf("logical unit %q: %w", d.cfg.Name, err)
	}
	if info.BlockSize != old.BlockSize {
		return fmt.Errorf("logical unit %q: blocks of %d bytes, were %d: %w", d.cfg.Name, info.BlockSize, old.BlockSize, ErrConfig)
	}
	now := d.cfg.measure(info)
	d.geo.Store(now)
	if now.capacity != before.capacity {
		d.AttendAll(AttnCapacityChanged, 0)
	}
	if now.limits != before.limits || now.provisioning != before.provisioning {
		d.AttendAll(AttnInquiryChanged, 0)
	}
	if info.ReadOnly != old.ReadOnly || info.WriteCache != old.WriteCache {
		d.AttendAll(AttnModeParametersChanged, 0)
	}
	return nil
}

// Unit returns the device as one reactor uses it, with that reactor's guard before the store.
func (d *Device) Unit(g *store.Guard) *Unit { return newUnit(d, g) }

// Stats counts what a device did.
type Stats struct {
	// Commands started, how many of them ended in CHECK CONDITION, and how many were aborted.
	Commands, CheckConditions, Aborted uint64
	// Nexuses is the number of I_T nexuses known now.
	Nexuses int
}

type deviceStats struct {
	commands, checks, aborted atomic.Uint64
}

// Stats returns a snapshot.
func (d *Device) Stats() Stats {
	return Stats{
		Commands: d.stats.commands.Load(), CheckConditions: d.stats.checks.Load(), Aborted: d.stats.aborted.Load(),
		Nexuses: d.nexuses.count(),
	}
}
