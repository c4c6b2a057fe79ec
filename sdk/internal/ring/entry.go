package ring

import "encoding/binary"

// The operations that an entry may carry, as in sdk/backstore.
const (
	opRead = iota + 1
	opWrite
	opFlush
	opUnmap
	opWriteZeroes
	opCompareAndWrite
	opWriteSame
)

// codeMiscompare is the completion code that only opCompareAndWrite has, as in sdk/backstore.
const codeMiscompare = 10

// Entry is one request as it travels. Its Data is a range of the arena.
type Entry struct {
	// Tag is the host's. The plugin returns it.
	Tag uint64
	// Op and Flags are those of sdk/backstore.
	Op, Flags uint8
	// Offset is the byte offset in the store.
	Offset uint64
	// Arena and Length are the data's place in the arena, in bytes.
	Arena  uint64
	Length uint32
	// Extent is how many bytes of the store opUnmap, opWriteZeroes and opWriteSame are about.
	Extent uint64
}

func (e *Entry) put(b *[SQESize]byte, generation uint32) {
	*b = [SQESize]byte{}
	binary.LittleEndian.PutUint64(b[sqeTag:], e.Tag)
	binary.LittleEndian.PutUint32(b[sqeGeneration:], generation)
	b[sqeOp], b[sqeFlags] = e.Op, e.Flags
	binary.LittleEndian.PutUint64(b[sqeOffset:], e.Offset)
	binary.LittleEndian.PutUint64(b[sqeArena:], e.Arena)
	binary.LittleEndian.PutUint32(b[sqeLength:], e.Length)
	binary.LittleEndian.PutUint64(b[sqeExtent:], e.Extent)
}

func (e *Entry) get(b *[SQESize]byte) (generation uint32) {
	e.Tag = binary.LittleEndian.Uint64(b[sqeTag:])
	e.Op, e.Flags = b[sqeOp], b[sqeFlags]
	e.Offset = binary.LittleEndian.Uint64(b[sqeOffset:])
	e.Arena = binary.LittleEndian.Uint64(b[sqeArena:])
	e.Length = binary.LittleEndian.Uint32(b[sqeLength:])
	e.Extent = binary.LittleEndian.Uint64(b[sqeExtent:])
	return binary.LittleEndian.Uint32(b[sqeGeneration:])
}

// Completion ends a request.
type Completion struct {
	Tag uint64
	// Code is one of sdk/backstore's.
	Code uint16
	// Bytes is how much was transferred: the entry's Length if Code is 0, at most that otherwise.
	Bytes uint32
	// At is the offset in the compared data of the first byte that differs, if Code is CodeMiscompare.
	At uint32
}

func (c *Completion) put(b *[CQESize]byte, generation uint32) {
	*b = [CQESize]byte{}
	binary.LittleEndian.PutUint64(b[cqeTag:], c.Tag)
	binary.LittleEndian.PutUint32(b[cqeGeneration:], generation)
	binary.LittleEndian.PutUint16(b[cqeCode:], c.Code)
	binary.LittleEndian.PutUint32(b[cqeBytes:], c.Bytes)
	binary.LittleEndian.PutUint32(b[cqeAt:], c.At)
}

func (c *Completion) get(b *[CQESize]byte) (generation uint32) {
	c.Tag = binary.LittleEndian.Uint64(b[cqeTag:])
	c.Code = binary.LittleEndian.Uint16(b[cqeCode:])
	c.Bytes = binary.LittleEndian.Uint32(b[cqeBytes:])
	c.At = binary.LittleEndian.Uint32(b[cqeAt:])
	return binary.LittleEndian.Uint32(b[cqeGeneration:])
}
