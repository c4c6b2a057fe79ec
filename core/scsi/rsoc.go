package scsi

import "encoding/binary"

// Command describes a command to REPORT SUPPORTED OPERATION CODES (SPC-4 6.35).
type Command struct {
	Op Opcode
	// SA is the service action if HasSA.
	SA    uint16
	HasSA bool
	// Usage is CDB USAGE DATA: the opcode, then a mask of the bits that the command evaluates, with the
	// service action itself in its field. Its length is the CDB's.
	Usage []byte
	// Recommended is the recommended command timeout in seconds; 0 means none.
	Recommended uint32
}

// Reporting options.
const (
	ReportEvery           = 0
	ReportByOpcode        = 1
	ReportByServiceAction = 2
	ReportByEither        = 3
)

// OperationsRequest is a REPORT SUPPORTED OPERATION CODES CDB taken apart.
type OperationsRequest struct {
	// Timeouts asks for command timeouts descriptors (RCTD).
	Timeouts bool
	// Options is the reporting options field, 0 to 7.
	Options uint8
	Op      Opcode
	SA      uint16
}

// OperationsRequest reads a REPORT SUPPORTED OPERATION CODES CDB.
func (c CDB) OperationsRequest() OperationsRequest {
	return OperationsRequest{
		Timeouts: c[2]&0x80 != 0, Options: c[2] & 0x07,
		Op: Opcode(c[3]), SA: binary.BigEndian.Uint16(c[4:6]),
	}
}

const timeoutsSize = 12

// appendTimeouts appends a command timeouts descriptor. The nominal time is not told: the backstore decides it.
func (c *Command) appendTimeouts(b []byte) []byte {
	b = append(b, 0, timeoutsSize-2, 0, 0, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, c.Recommended)
}

// BeginAllCommands appends the header of the all_commands format; AppendTo follows for each
// command, then EndAllCommands with the length of the slice before.
func BeginAllCommands(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// EndAllCommands fills in COMMAND DATA LENGTH. Start is where BeginAllCommands appended.
func EndAllCommands(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// AppendTo appends the command's descriptor in the all_commands format (SPC-4 6.35.2).
func (c *Command) AppendTo(b []byte, timeouts bool) []byte {
	b = append(b, byte(c.Op), 0)
	b = binary.BigEndian.AppendUint16(b, c.SA)
	b = append(b, 0, bit(timeouts, 0x02)|bit(c.HasSA, 0x01))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Usage)))
	if timeouts {
		b = c.appendTimeouts(b)
	}
	return b
}

// AppendOne appends the one_command format (SPC-4 6.35.3) for a supported command.
func (c *Command) AppendOne(b []byte, timeouts bool) []byte {
	const supported = 0x03
	b = append(b, 0, bit(timeouts, 0x80)|supported)
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Usage)))
	b = append(b, c.Usage...)
	if timeouts {
		b = c.appendTimeouts(b)
	}
	return b
}

// AppendUnsupported appends the one_command format for a command that is not supported.
func AppendUnsupported(b []byte) []byte {
	const notSupported = 0x01
	return append(b, 0, notSupported, 0, 0)
}
