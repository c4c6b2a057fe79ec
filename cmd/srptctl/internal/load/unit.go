package load

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Unit is a logical unit of an SRP session.
type Unit struct {
	s      *initiator.Session
	lun    srp.LUN
	cap    initiator.Capacity
	mem    []byte
	region rdma.Region
	cmds   []unitCommand
}

// unitCommand is the command of one slot.
type unitCommand struct {
	initiator.Command
	sge [1]rdma.SGE
	io  *IO
}

// NewUnit asks the logical unit for its capacity.
func NewUnit(ctx context.Context, s *initiator.Session, lun srp.LUN) (*Unit, error) {
	c, err := s.ReadCapacity(ctx, lun)
	if err != nil {
		return nil, fmt.Errorf("LUN %s: %w", lun, err)
	}
	return &Unit{s: s, lun: lun, cap: c}, nil
}

// Size implements Device.
func (u *Unit) Size() int64 { return int64(u.cap.Blocks) * int64(u.cap.BlockSize) }

// Buffers implements Device: it registers memory for n requests.
func (u *Unit) Buffers(n, size int) (bufs [][]byte, err error) {
	if size%int(u.cap.BlockSize) != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of blocks of %d", size, u.cap.BlockSize)
	}
	if err := u.Close(); err != nil {
		return nil, err
	}
	if u.mem, err = unix.Mmap(-1, 0, n*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return nil, err
	}
	if u.region, err = u.s.Register(u.mem); err != nil {
		return nil, err
	}
	u.cmds = make([]unitCommand, n)
	for i := range u.cmds {
		u.cmds[i].LUN, u.cmds[i].Done = u.lun, u.done
		u.cmds[i].sge[0] = rdma.SGE{Region: u.region, Off: uint64(i * size), Len: uint64(size)}
		bufs = append(bufs, u.mem[i*size:(i+1)*size])
	}
	return bufs, nil
}

// Submit implements Device.
func (u *Unit) Submit(io *IO) {
	c := &u.cmds[io.Slot]
	c.io = io
	lba, blocks := uint64(io.Off)/uint64(u.cap.BlockSize), uint32(len(io.Buf))/u.cap.BlockSize
	if io.Write {
		c.CDB, c.Out, c.In = initiator.Write16(lba, blocks), c.sge[:], nil
	} else {
		c.CDB, c.Out, c.In = initiator.Read16(lba, blocks), nil, c.sge[:]
	}
	if n, err := u.s.Submit(&c.Command); n == 0 {
		io.Done(io, err)
	}
}

func (u *Unit) done(c *initiator.Command) {
	io := u.find(c)
	io.Done(io, u.check(c))
}

// find returns the request of a command: its slot is where its memory lies.
func (u *Unit) find(c *initiator.Command) *IO {
	sgl := c.In
	if sgl == nil {
		sgl = c.Out
	}
	return u.cmds[sgl[0].Off/sgl[0].Len].io
}

// check makes sure that everything was moved.
func (u *Unit) check(c *initiator.Command) error {
	if err := c.Result.Check(); err != nil {
		return err
	}
	if c.Result.In != 0 || c.Result.Out != 0 {
		return errResidual
	}
	return nil
}

var errResidual = errors.New("the target moved less than was asked for")

// Close gives the memory back. Nothing is outstanding.
func (u *Unit) Close() error {
	var err error
	if u.region != nil {
		err = u.region.Close()
	}
	if u.mem != nil {
		err = errors.Join(err, unix.Munmap(u.mem))
	}
	u.region, u.mem = nil, nil
	return err
}
