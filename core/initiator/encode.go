package initiator

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// maxList is the longest table that a unit can carry: its count is a byte.
const maxList = 255

// encode makes the unit of a command.
func (ch *channel) encode(sl *slot, c *Command) error {
	f := &ch.fields
	*f = srp.CmdFields{Tag: sl.newTag(), LUN: c.LUN, Attr: c.Attr, CDB: c.CDB[:]}
	var err error
	if f.Out, err = ch.describe(sl, c.Out, ch.outList, ch.chooseOut(c), rdma.RemoteRead); err != nil {
		return err
	}
	if f.In, err = ch.describe(sl, c.In, ch.inList, chooseIn(c), rdma.RemoteWrite); err != nil {
		return err
	}
	if f.In.Remote > 0 && f.Out.Remote > 0 {
		return fmt.Errorf("%w: two tables that do not fit into the unit", ErrInvalid)
	}
	if n := unitLen(f); n > uint64(ch.maxITIU) {
		return fmt.Errorf("%w: the command takes a unit of %d bytes, the login allows %d", ErrInvalid, n, ch.maxITIU)
	}
	sl.iu = f.Append(sl.iu[:0])
	return nil
}

// unitLen is how long Append makes the unit.
func unitLen(f *srp.CmdFields) uint64 {
	n := uint64(srp.CmdLen)
	for _, d := range [...]*srp.DataFields{&f.Out, &f.In} {
		switch d.Format {
		case srp.FormatDirect:
			n += srp.DescLen
		case srp.FormatIndirect:
			n += srp.IndirectLen + srp.DescLen*uint64(len(d.List)-d.Remote)
		case srp.FormatImmediate:
			n += immediateOffset - srp.CmdLen + uint64(len(d.Immediate))
		}
	}
	return n
}

// chooseOut settles FormatAuto for the data that the target reads.
func (ch *channel) chooseOut(c *Command) Format {
	if c.Format != FormatAuto {
		return c.Format
	}
	if ch.immediate && len(c.Out) == 1 && len(c.In) == 0 && c.Out[0].Len <= uint64(ch.maxITIU)-immediateOffset {
		return FormatImmediate
	}
	return byCount(c.Out)
}

// chooseIn settles the format for the data that the target writes, which is never immediate.
func chooseIn(c *Command) Format {
	if c.Format != FormatAuto && c.Format != FormatImmediate {
		return c.Format
	}
	return byCount(c.In)
}

func byCount(sgl []rdma.SGE) Format {
	if len(sgl) == 1 {
		return FormatDirect
	}
	return FormatIndirect
}

// describe makes the descriptor of one direction in the format asked for.
func (ch *channel) describe(sl *slot, sgl []rdma.SGE, list []srp.Desc, f Format, access rdma.Access) (d srp.DataFields, err error) {
	if len(sgl) == 0 {
		return d, nil
	}
	var total uint64
	for i := range sgl {
		if err := checkPiece(&sgl[i], &total); err != nil {
			return d, err
		}
	}
	switch {
	case f == FormatDirect && len(sgl) != 1:
		return d, fmt.Errorf("%w: %d pieces of memory in the direct format", ErrInvalid, len(sgl))
	case f == FormatImmediate && (len(sgl) != 1 || access != rdma.RemoteRead || !ch.immediate):
		return d, fmt.Errorf("%w: immediate data was not granted, or is not one piece to be written", ErrInvalid)
	case len(sgl) > max(ch.s.cfg.ListEntries, ch.s.cfg.TableEntries):
		return d, fmt.Errorf("%w: %d pieces of memory, a unit names %d and a table %d", ErrInvalid, len(sgl), ch.s.cfg.ListEntries, ch.s.cfg.TableEntries)
	}
	if f == FormatImmediate {
		e := &sgl[0]
		d.Format, d.ImmediateOffset = srp.FormatImmediate, immediateOffset
		d.Immediate = e.Region.Bytes()[e.Off : e.Off+e.Len]
		return d, nil
	}
	for i := range sgl {
		e := &sgl[i]
		list = append(list, srp.Desc{Addr: e.Region.Addr() + e.Off, Key: e.Region.RKey(), Length: uint32(e.Len)})
	}
	d.Format, d.List = srp.FormatDirect, list
	if f == FormatIndirect {
		d.Format = srp.FormatIndirect
		ch.placeTable(sl, &d)
	}
	return d, nil
}

// placeTable says where the table of d lies: if it does not fit into the unit, in memory that the target can read.
func (ch *channel) placeTable(sl *slot, d *srp.DataFields) {
	cfg := &ch.s.cfg
	room := max(int(ch.maxITIU)-srp.CmdLen-srp.IndirectLen, 0) / srp.DescLen
	in := min(len(d.List), cfg.ListEntries, room)
	if cfg.TableEntries == 0 || in == len(d.List) {
		// The table is complete in the unit; its own address is never used.
		d.Table = srp.Desc{Addr: ch.sendMem.Addr() + uint64(sl.off), Key: ch.sendMem.RKey()}
		return
	}
	off := sl.index * cfg.TableEntries * srp.DescLen
	d.Table = srp.Desc{Addr: ch.tableMem.Addr() + uint64(off), Key: ch.tableMem.RKey()}
	d.Remote = len(d.List) - in
	b := ch.tableMem.Bytes()[off+in*srp.DescLen : off+in*srp.DescLen]
	for _, e := range d.List[in:] {
		b = e.Append(b)
	}
}

// checkPiece checks that an element lies in its region, and that the sum of them fits in 32 bits.
func checkPiece(e *rdma.SGE, total *uint64) error {
	if e.Region == nil {
		return fmt.Errorf("%w: a piece of memory without a region", ErrInvalid)
	}
	size := uint64(len(e.Region.Bytes()))
	if e.Off > size || e.Len > size-e.Off {
		return fmt.Errorf("%w: %d bytes at %d of a region of %d", ErrInvalid, e.Len, e.Off, size)
	}
	if *total += e.Len; *total > 1<<32-1 {
		return fmt.Errorf("%w: the data buffer is longer than 4 GiB", ErrInvalid)
	}
	return nil
}
