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
	table  []byte // table descriptor of the indirect format
	list   []byte // memory descriptors within the unit
	imm    []byte // immediate data
}

// Format returns the descriptor format.
func (d *Data) Format() Format { return d.format }

// Len returns the length of the data buffer in bytes: what the command may move.
func (d *Data) Len() uint32 { return d.length }

// Count returns the number of memory descriptors. Their lengths sum to at
// least Len; single ones may be zero.
func (d *Data) Count() int { return len(d.list) / DescLen }

// At returns memory descriptor i, 0 <= i < Count.
func (d *Data) At(i int) Desc { return desc(d.list[i*DescLen:]) }

// Table returns the table descriptor of the indirect format: where the table
// lies in initiator memory. Zero for other formats.
func (d *Data) Table() Desc {
	if d.table == nil {
		return Desc{}
	}
	return desc(d.table)
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
func (d *Data) verify(maxTransfer uint32) error {
	if d.format == FormatIndirect {
		if err := d.verifyTable(); err != nil {
			return err
		}
	}
	if err := d.verifyList(); err != nil {
		return err
	}
	if d.length > maxTransfer {
		return fail(OpCmd, ProblemTransfer, uint64(d.length), uint64(maxTransfer))
	}
	return nil
}

func (d *Data) verifyTable() error {
	size := d.Table().Length
	if size%DescLen != 0 {
		return fail(OpCmd, ProblemTableLength, uint64(size), DescLen)
	}
	n, c := uint64(size/DescLen), uint64(d.Count())
	if c > n {
		return fail(OpCmd, ProblemCount, c, n)
	}
	if c < n {
		return fail(OpCmd, ProblemRemoteTable, n, c)
	}
	return nil
}

func (d *Data) verifyList() error {
	if d.format != FormatDirect && d.format != FormatIndirect {
		return nil
	}
	var sum uint64 // at most 255 entries of 32 bits: cannot wrap
	for i := range d.Count() {
		e := d.At(i)
		if _, carry := bits.Add64(e.Addr, uint64(e.Length), 0); carry != 0 {
			return fail(OpCmd, ProblemWrap, e.Addr, uint64(e.Length))
		}
		sum += uint64(e.Length)
	}
	if uint64(d.length) > sum {
		return fail(OpCmd, ProblemTotal, uint64(d.length), sum)
	}
	return nil
}
