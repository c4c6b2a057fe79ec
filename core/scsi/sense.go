package scsi

import (
	"encoding/binary"
	"fmt"
	"math"
)

// SenseSize is the length of fixed format sense data as built here, in bytes.
const SenseSize = 18

// Response codes of sense data (SPC-4 4.5.1).
const (
	senseFixed      = 0x70
	senseDescriptor = 0x72
)

// Sense is sense data in the abstract. The zero value says NO SENSE.
type Sense struct {
	Code SenseCode
	// Info is the INFORMATION field, present if HasInfo.
	Info    uint64
	HasInfo bool
	// Field points at the offending byte of the CDB, present if HasField (SPC-4 4.5.2.4.2).
	Field    FieldPointer
	HasField bool
	// Deferred marks an error of an earlier command (SPC-4 4.5.7).
	Deferred bool
}

// FieldPointer locates a field for ILLEGAL REQUEST.
type FieldPointer struct {
	// Byte is the offset of the field's first byte.
	Byte uint16
	// Bit is the number of the field's leftmost bit in that byte, 7 to 0; NoBit if it is the whole byte.
	Bit int8
	// Data tells that Byte counts in the parameter data, not in the CDB.
	Data bool
}

// NoBit is the Bit of a field that fills its first byte.
const NoBit = -1

// InvalidField is ILLEGAL REQUEST, INVALID FIELD IN CDB with a pointer at the field.
func InvalidField(byteNo uint16, bit int8) Sense {
	return Sense{Code: InvalidFieldInCDB, HasField: true, Field: FieldPointer{Byte: byteNo, Bit: bit}}
}

// InvalidParameter is ILLEGAL REQUEST, INVALID FIELD IN PARAMETER LIST with a pointer at the field's first byte.
func InvalidParameter(byteNo uint16) Sense {
	return Sense{Code: InvalidFieldInParameters, HasField: true, Field: FieldPointer{Byte: byteNo, Bit: NoBit, Data: true}}
}

// IsZero tells whether the sense says nothing.
func (s Sense) IsZero() bool { return s == Sense{} }

// Put writes fixed format sense data (SPC-4 4.5.3) into b.
func (s Sense) Put(b *[SenseSize]byte) {
	*b = [SenseSize]byte{0: senseFixed, 2: byte(s.Code.Key()), 7: SenseSize - 8, 12: s.Code.ASC(), 13: s.Code.ASCQ()}
	if s.Deferred {
		b[0]++
	}
	// A value that does not fit in four bytes leaves VALID at 0.
	if s.HasInfo && s.Info <= math.MaxUint32 {
		b[0] |= 0x80
		binary.BigEndian.PutUint32(b[3:7], uint32(s.Info))
	}
	if s.HasField {
		s.Field.put((*[3]byte)(b[15:18]))
	}
}

// put writes the three sense key specific bytes.
func (f FieldPointer) put(b *[3]byte) {
	b[0] = 0x80
	if !f.Data {
		b[0] |= 0x40
	}
	if f.Bit >= 0 {
		b[0] |= 0x08 | byte(f.Bit)&7
	}
	binary.BigEndian.PutUint16(b[1:3], f.Byte)
}

// AppendFixed appends SenseSize bytes of fixed format sense data.
func (s Sense) AppendFixed(b []byte) []byte {
	var buf [SenseSize]byte
	s.Put(&buf)
	return append(b, buf[:]...)
}

// AppendDescriptor appends descriptor format sense data (SPC-4 4.5.2).
func (s Sense) AppendDescriptor(b []byte) []byte {
	start := len(b)
	b = append(b, senseDescriptor, byte(s.Code.Key()), s.Code.ASC(), s.Code.ASCQ(), 0, 0, 0, 0)
	if s.Deferred {
		b[start]++
	}
	if s.HasInfo {
		b = append(b, 0x00, 0x0A, 0x80, 0)
		b = binary.BigEndian.AppendUint64(b, s.Info)
	}
	if s.HasField {
		var sks [3]byte
		s.Field.put(&sks)
		b = append(b, 0x02, 0x06, 0, 0, sks[0], sks[1], sks[2], 0)
	}
	b[start+7] = byte(len(b) - start - 8)
	return b
}

// ParseSense reads sense data of either format. Errors wrap ErrShort, or ErrRange for a response code
// that is neither.
func ParseSense(b []byte) (Sense, error) {
	if len(b) < 8 {
		return Sense{}, fmt.Errorf("sense data of %d bytes: %w", len(b), ErrShort)
	}
	switch code := b[0] & 0x7F; code &^ 1 {
	case senseFixed:
		return parseFixed(b)
	case senseDescriptor:
		return parseDescriptor(b)
	default:
		return Sense{}, fmt.Errorf("response code %02Xh is no sense data: %w", code, ErrRange)
	}
}

func parseFixed(b []byte) (Sense, error) {
	if n := 8 + int(b[7]); n < len(b) {
		b = b[:n]
	}
	if len(b) < 14 {
		return Sense{}, fmt.Errorf("fixed format sense data of %d bytes: %w", len(b), ErrShort)
	}
	s := Sense{Code: MakeSenseCode(Key(b[2]&0x0F), b[12], b[13]), Deferred: b[0]&1 != 0}
	if b[0]&0x80 != 0 {
		s.HasInfo, s.Info = true, uint64(binary.BigEndian.Uint32(b[3:7]))
	}
	if len(b) >= SenseSize {
		s.parseField([3]byte(b[15:18]))
	}
	return s, nil
}

func parseDescriptor(b []byte) (Sense, error) {
	s := Sense{Code: MakeSenseCode(Key(b[1]&0x0F), b[2], b[3]), Deferred: b[0]&1 != 0}
	rest := b[8:]
	if n := int(b[7]); n < len(rest) {
		rest = rest[:n]
	}
	for len(rest) >= 2 {
		n := 2 + int(rest[1])
		if n > len(rest) {
			return Sense{}, fmt.Errorf("sense data descriptor %02Xh of %d bytes: %w", rest[0], n, ErrShort)
		}
		d := rest[:n]
		switch {
		case d[0] == 0 && n >= 12 && d[2]&0x80 != 0:
			s.HasInfo, s.Info = true, binary.BigEndian.Uint64(d[4:12])
		case d[0] == 2 && n >= 7:
			s.parseField([3]byte(d[4:7]))
		}
		rest = rest[n:]
	}
	return s, nil
}

// parseField reads sense key specific bytes, which are a field pointer for ILLEGAL REQUEST only.
func (s *Sense) parseField(b [3]byte) {
	if b[0]&0x80 == 0 || s.Code.Key() != KeyIllegalRequest {
		return
	}
	s.HasField = true
	s.Field = FieldPointer{Byte: binary.BigEndian.Uint16(b[1:3]), Bit: NoBit, Data: b[0]&0x40 == 0}
	if b[0]&0x08 != 0 {
		s.Field.Bit = int8(b[0] & 7)
	}
}
