package ring

import "encoding/binary"

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
}

func (e *Entry) put(b *[SQESize]byte, generation uint32) {
	*b = [SQESize]byte{}
	binary.LittleEndian.PutUint64(b[sqeTag:], e.Tag)
	binary.LittleEndian.PutUint32(b[sqeGeneration:], generation)
	b[sqeOp], b[sqeFlags] = e.Op, e.Flags
	binary.LittleEndian.PutUint64(b[sqeOffset:], e.Offset)
	binary.LittleEndian.PutUint64(b[sqeArena:], e.Arena)
	binary.LittleEndian.PutUint32(b[sqeLength:], e.Length)
}

func (e *Entry) get(b *[SQESize]byte) (generation uint32) {
	e.Tag = binary.LittleEndian.Uint64(b[sqeTag:])
	e.Op, e.Flags = b[sqeOp], b[sqeFlags]
	e.Offset = binary.LittleEndian.Uint64(b[sqeOffset:])
	e.Arena = binary.LittleEndian.Uint64(b[sqeArena:])
	e.Length = binary.LittleEndian.Uint32(b[sqeLength:])
	return binary.LittleEndian.Uint32(b[sqeGeneration:])
}

// Completion ends a request.
type Completion struct {
	Tag uint64
	// Code is one of sdk/backstore's.
	Code uint16
	// Bytes is how much was transferred: the entry's Length if Code is 0, at most that otherwise.
	Bytes uint32
}

func (c *Completion) put(b *[CQESize]byte, generation uint32) {
	*b = [CQESize]byte{}
	binary.LittleEndian.PutUint64(b[cqeTag:], c.Tag)
	binary.LittleEndian.PutUint32(b[cqeGeneration:], generation)
	binary.LittleEndian.PutUint16(b[cqeCode:], c.Code)
	binary.LittleEndian.PutUint32(b[cqeBytes:], c.Bytes)
}

func (c *Completion) get(b *[CQESize]byte) (generation uint32) {
	c.Tag = binary.LittleEndian.Uint64(b[cqeTag:])
	c.Code = binary.LittleEndian.Uint16(b[cqeCode:])
	c.Bytes = binary.LittleEndian.Uint32(b[cqeBytes:])
	return binary.LittleEndian.Uint32(b[cqeGeneration:])
}
