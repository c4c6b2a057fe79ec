package srp

import (
	"encoding/binary"
	"math/bits"
)

// Format is a data buffer descriptor format, a nibble of SRP_CMD byte 5.
type Format uint8

// Descriptor formats; other values are reserved.
const (
	FormatNone      Format = 0
	FormatDirect    Format = 1
	FormatIndirect  Format = 2
	FormatImmediate Format = 3 // data-out only, SRP-2
)

const (
	// DescLen is the size of a memory descriptor in bytes.
	DescLen = 16
	// IndirectLen is the size in bytes of an indirect descriptor up to its list.
	IndirectLen = DescLen + 4
	// ImmediateLen is the size of an immediate data descriptor in bytes.
	ImmediateLen = 4
)

// Desc is a memory descriptor: a piece of initiator memory.
type Desc struct {
	Addr   uint64 // virtual address
	Key    uint32 // memory handle: the R_Key
	Length uint32 // bytes
}

func desc(b []byte) Desc {
	return Desc{
		Addr:   binary.BigEndian.Uint64(b),
		Key:    binary.BigEndian.Uint32(b[8:]),
		Length: binary.BigEndian.Uint32(b[12:]),
	}
}

// wraps tells whether the piece reaches beyond the end of the address space.
func (d Desc) wraps() bool {
	_, carry := bits.Add64(d.Addr, uint64(d.Length), 0)
	return carry != 0
}

// Append appends the 16 bytes of the descriptor.
func (d Desc) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, d.Addr)
	b = binary.BigEndian.AppendUint32(b, d.Key)
	return binary.BigEndian.AppendUint32(b, d.Length)
}

// Data is one direction's data buffer of an SRP_CMD, a view of the unit.
type Data struct {
	format Format
	length uint32
	remote uint32 // bytes of the table that are in initiator memory only
	table  []byte // table descriptor of the indirect format
	list   []byte // memory descriptors within the unit
	rest   []byte // those that Complete has added
	imm    []byte // immediate data
}

// Format returns the descriptor format.
func (d *Data) Format() Format { return d.format }

// Len returns the length of the data buffer in bytes: what the command may move.
func (d *Data) Len() uint32 { return d.length }

// Count returns the number of memory descriptors that are known. Their lengths
// sum to at least Len, unless Remote names more; single ones may be zero.
func (d *Data) Count() int { return (len(d.list) + len(d.rest)) / DescLen }

// At returns memory descriptor i, 0 <= i < Count.
func (d *Data) At(i int) Desc {
	off := i * DescLen
	if off < len(d.list) {
		return desc(d.list[off:])
	}
	return desc(d.rest[off-len(d.list):])
}

// Table returns the table descriptor of the indirect format: where the table
// lies in initiator memory. Zero for other formats.
func (d *Data) Table() Desc {
	if d.table == nil {
		return Desc{}
	}
	return desc(d.table)
}

// Remote names the part of the table that is in initiator memory only, to be read
// from there and given to Complete. Its length is 0 if there is none.
func (d *Data) Remote() Desc {
	if d.remote == 0 {
		return Desc{}
	}
	t := d.Table()
	return Desc{Addr: t.Addr + uint64(len(d.list)), Key: t.Key, Length: d.remote}
}

// Complete adds the part of the table that Remote named, b, which must stay in place
// as long as the descriptors are used. An error tells what is wrong with the whole
// table, as Parse would have; then d has no part of it.
func (d *Data) Complete(b []byte) error {
	if uint64(len(b)) != uint64(d.remote) {
		return fail(OpCmd, ProblemTableLength, uint64(len(b)), uint64(d.remote))
	}
	d.rest, d.remote = b, 0
	err := d.verifyList()
	if err != nil {
		d.list, d.rest = nil, nil
	}
	return err
}

// Immediate returns the data of the immediate format, Len bytes, nil for others.
func (d *Data) Immediate() []byte { return d.imm }

// place finds the descriptor at off of b and returns the offset after it.
// Where the format is immediate, its data is placed later.
func (d *Data) place(b []byte, off uint64, f Format, count uint8) (uint64, error) {
	d.format = f
	end := off + descriptorSize(f, count)
	if end > uint64(len(b)) {
		return 0, fail(OpCmd, ProblemDescriptorArea, end, uint64(len(b)))
	}
	switch f {
	case FormatDirect:
		d.list = b[off:end]
		d.length = binary.BigEndian.Uint32(b[off+12:])
	case FormatIndirect:
		d.table = b[off : off+DescLen]
		d.length = binary.BigEndian.Uint32(b[off+DescLen:])
		d.list = b[off+IndirectLen : end]
	case FormatImmediate:
		d.length = binary.BigEndian.Uint32(b[off:])
	}
	return end, nil
}

func descriptorSize(f Format, count uint8) uint64 {
	switch f {
	case FormatDirect:
		return DescLen
	case FormatIndirect:
		return IndirectLen + DescLen*uint64(count)
	case FormatImmediate:
		return ImmediateLen
	}
	return 0
}

// placeImmediate finds the data at the negotiated offset; end is where the
// descriptors end.
func (d *Data) placeImmediate(b []byte, offset uint16, end uint64) error {
	if d.format != FormatImmediate {
		return nil
	}
	off := uint64(offset)
	if last := off + uint64(d.length); last > uint64(len(b)) {
		return fail(OpCmd, ProblemImmediateRange, last, uint64(len(b)))
	}
	if off < end {
		return fail(OpCmd, ProblemImmediateOverlap, end, off)
	}
	d.imm = b[off : off+uint64(d.length)]
	return nil
}

// verify checks what the descriptors say.
func (d *Data) verify(l CmdLimits) error {
	if d.format == FormatIndirect {
		if err := d.verifyTable(l.MaxTable); err != nil {
			return err
		}
	}
	if err := d.verifyList(); err != nil {
		return err
	}
	if d.length > l.MaxTransfer {
		return fail(OpCmd, ProblemTransfer, uint64(d.length), uint64(l.MaxTransfer))
	}
	return nil
}

func (d *Data) verifyTable(most uint32) error {
	t := d.Table()
	have := uint32(len(d.list)) // at most 255 descriptors
	switch {
	case t.Length%DescLen != 0:
		return fail(OpCmd, ProblemTableLength, uint64(t.Length), DescLen)
	case have > t.Length:
		return fail(OpCmd, ProblemCount, uint64(have/DescLen), uint64(t.Length/DescLen))
	case have == t.Length:
		return nil // its address is of no interest
	case t.Length > most:
		return fail(OpCmd, ProblemRemoteTable, uint64(t.Length), uint64(most))
	case t.wraps():
		return fail(OpCmd, ProblemWrap, t.Addr, uint64(t.Length))
	}
	d.remote = t.Length - have
	return nil
}

func (d *Data) verifyList() error {
	if d.format != FormatDirect && d.format != FormatIndirect {
		return nil
	}
	var sum uint64 // of fewer than 2^28 entries of 32 bits: cannot wrap
	for i := range d.Count() {
		e := d.At(i)
		if e.wraps() {
			return fail(OpCmd, ProblemWrap, e.Addr, uint64(e.Length))
		}
		sum += uint64(e.Length)
	}
	if d.remote == 0 && uint64(d.length) > sum {
		return fail(OpCmd, ProblemTotal, uint64(d.length), sum)
	}
	return nil
}
