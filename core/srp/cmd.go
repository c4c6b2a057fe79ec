package srp

import "encoding/binary"

// TaskAttr is a task attribute, bits 2..0 of SRP_CMD byte 29.
type TaskAttr uint8

// Task attributes; other values are reserved.
const (
	AttrSimple      TaskAttr = 0
	AttrHeadOfQueue TaskAttr = 1
	AttrOrdered     TaskAttr = 2
	AttrACA         TaskAttr = 4
)

const (
	cdbLen      = 16
	addCDBMask  = 0xfc // byte 31: additional CDB length in bytes
	attrMask    = 0x07
	formatShift = 4
	formatMask  = 0x0f
)

// CmdLimits is what a login has settled about SRP_CMD.
type CmdLimits struct {
	MaxTransfer     uint32 // longest data buffer, bytes
	MaxTable        uint32 // longest indirect table that is not wholly in the unit, bytes; 0: none
	ImmediateOffset uint16 // negotiated offset of immediate data; 0: not negotiated
}

// Cmd is an SRP_CMD, a view of the received bytes (r16a 6.8).
type Cmd struct {
	b   []byte
	out Data
	in  Data
}

// Parse makes c a view of b, the bytes received for one unit and no more. It
// checks everything in the order of r16a and of Problem. After an error whose
// Answer is AnswerCheck the accessors of the fixed part, Tag, LUN, Attr, SolNot
// and CDB, are good and both data buffers are empty; after others c is empty.
func (c *Cmd) Parse(b []byte, l CmdLimits) error {
	*c = Cmd{}
	if err := fixed(b, OpCmd, CmdLen); err != nil {
		return err
	}
	c.b = b
	err := c.parse(l)
	if err == nil {
		return nil
	}
	c.out, c.in = Data{}, Data{}
	if err.(*ParseError).Answer().Kind != AnswerCheck {
		c.b = nil
	}
	return err
}

func (c *Cmd) parse(l CmdLimits) error {
	off := CmdLen + uint64(c.b[31]&addCDBMask)
	if off > uint64(len(c.b)) {
		return fail(OpCmd, ProblemAddCDB, off, uint64(len(c.b)))
	}
	if err := c.place(off, l); err != nil {
		return err
	}
	if err := c.out.verify(l); err != nil {
		return err
	}
	if err := c.in.verify(l); err != nil {
		return err
	}
	if c.out.length > 0 && c.in.length > 0 {
		return fail(OpCmd, ProblemBidirectional, uint64(c.out.length), uint64(c.in.length))
	}
	switch a := c.Attr(); a {
	case AttrSimple, AttrHeadOfQueue, AttrOrdered, AttrACA:
		return nil
	default:
		return fail(OpCmd, ProblemTaskAttribute, uint64(a), uint64(AttrACA))
	}
}

// place lays the descriptors over the bytes from off on: data-out, then data-in.
func (c *Cmd) place(off uint64, l CmdLimits) error {
	out, in := Format(c.b[5]>>formatShift), Format(c.b[5]&formatMask)
	if out > FormatImmediate || out == FormatImmediate && l.ImmediateOffset == 0 {
		return fail(OpCmd, ProblemFormatOut, uint64(out), uint64(FormatIndirect))
	}
	if in > FormatIndirect {
		return fail(OpCmd, ProblemFormatIn, uint64(in), uint64(FormatIndirect))
	}
	nout, nin := c.counts(out, in)
	off, err := c.out.place(c.b, off, out, nout)
	if err != nil {
		return err
	}
	off, err = c.in.place(c.b, off, in, nin)
	if err != nil {
		return err
	}
	return c.out.placeImmediate(c.b, l.ImmediateOffset, off)
}

// counts returns the descriptor counts of the two directions. Some OFED
// initiators put the count in the byte of the other direction: it is taken from
// there if that direction has no descriptor and the right byte is zero.
func (c *Cmd) counts(out, in Format) (nout, nin uint8) {
	nout, nin = c.b[6], c.b[7]
	if in == FormatNone && nout == 0 {
		nout = nin
	}
	if out == FormatNone && nin == 0 {
		nin = nout
	}
	return nout, nin
}

// Bytes returns the unit as it was received.
func (c *Cmd) Bytes() []byte { return c.b }

// Tag returns the tag of the command.
func (c *Cmd) Tag() Tag { return Tag(binary.BigEndian.Uint64(c.b[8:])) }

// LUN returns the logical unit addressed.
func (c *Cmd) LUN() LUN { return LUN(c.b[20:28]) }

// Attr returns the task attribute.
func (c *Cmd) Attr() TaskAttr { return TaskAttr(c.b[29] & attrMask) }

// SolNot returns the solicited notification bits, SolNotSuccess and
// SolNotUnsuccess.
func (c *Cmd) SolNot() byte { return c.b[1] }

// CDB returns the 16 bytes of the CDB field.
func (c *Cmd) CDB() []byte { return c.b[32 : 32+cdbLen : 32+cdbLen] }

// AddCDB returns the additional CDB bytes that follow them, 0 to 252.
func (c *Cmd) AddCDB() []byte {
	end := min(CmdLen+int(c.b[31]&addCDBMask), len(c.b))
	return c.b[CmdLen:end:end]
}

// DataOut returns the buffer the target reads from the initiator.
func (c *Cmd) DataOut() *Data { return &c.out }

// DataIn returns the buffer the target writes to the initiator.
func (c *Cmd) DataIn() *Data { return &c.in }

// CmdFields is what an initiator puts into an SRP_CMD.
type CmdFields struct {
	Tag    Tag
	LUN    LUN
	Attr   TaskAttr
	SolNot byte
	CDB    []byte // 1 to 16 bytes; longer ones, to 268, go on as additional CDB
	Out    DataFields
	In     DataFields
}

// DataFields describes one direction's data buffer. The zero value is none.
type DataFields struct {
	Format Format
	// List is the single descriptor of the direct format and the whole table of
	// the indirect one, of which at most 255 go into the unit.
	List []Desc
	// Table is where the indirect table lies in initiator memory. Its length is
	// derived from List.
	Table Desc
	// Remote is how many of the last entries of List are left out of the unit: an
	// initiator has them in memory at Table. Then List may be as long as a table can be.
	Remote int
	// Immediate is the data of the immediate format, put at ImmediateOffset of
	// the unit.
	Immediate       []byte
	ImmediateOffset uint16
}

// count returns the descriptor count byte.
func (d *DataFields) count() byte {
	if d.Format != FormatIndirect {
		return 0
	}
	return byte(len(d.inUnit()))
}

// inUnit returns the entries of the table that go into the unit.
func (d *DataFields) inUnit() []Desc { return d.List[:len(d.List)-d.Remote] }

// Append appends the unit. It builds what the fields say, right or wrong: the
// immediate data is laid at its offset only if the descriptors end before that.
func (f *CmdFields) Append(b []byte) []byte {
	start := len(b)
	b = append(b, byte(OpCmd), f.SolNot, 0, 0, 0, byte(f.Out.Format)<<formatShift|byte(f.In.Format)&formatMask,
		f.Out.count(), f.In.count())
	b = binary.BigEndian.AppendUint64(b, uint64(f.Tag))
	b = append(b, 0, 0, 0, 0)
	b = append(b, f.LUN[:]...)
	add := (max(len(f.CDB), cdbLen) - cdbLen + 3) &^ 3
	b = append(b, 0, byte(f.Attr), 0, byte(add)&addCDBMask)
	b = append(b, f.CDB...)
	b = pad(b, start+CmdLen+add)
	b = f.Out.append(b)
	b = f.In.append(b)
	if f.Out.Format == FormatImmediate {
		b = pad(b, start+int(f.Out.ImmediateOffset))
		b = append(b, f.Out.Immediate...)
	}
	return b
}

func (d *DataFields) append(b []byte) []byte {
	switch d.Format {
	case FormatDirect:
		return d.List[0].Append(b)
	case FormatImmediate:
		return binary.BigEndian.AppendUint32(b, uint32(len(d.Immediate)))
	case FormatIndirect:
		t := d.Table
		t.Length = uint32(len(d.List)) * DescLen
		b = t.Append(b)
		b = binary.BigEndian.AppendUint32(b, d.total())
		for _, e := range d.inUnit() {
			b = e.Append(b)
		}
	}
	return b
}

func (d *DataFields) total() uint32 {
	var n uint32
	for _, e := range d.List {
		n += e.Length
	}
	return n
}

// pad appends zeros until b is n long.
func pad(b []byte, n int) []byte {
	for len(b) < n {
		b = append(b, 0)
	}
	return b
}
