package ring

import (
	"encoding/binary"
	"testing"
)

// FuzzHostilePlugin lets the input decide what a plugin writes into its region, between the host's steps. Whatever that
// is, the host never panics, never believes more than is in flight, and never gives a slot back twice.
func FuzzHostilePlugin(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte{1, 0x80, 0, 1, 2, 0x00, 0x10, 9})
	f.Add([]byte{3, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0})
	f.Add([]byte{2, 0x10, 0x00, 0xff, 0, 0, 0, 0, 3, 1, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		const entries = 4
		h, p, r := pair(t, entries)
		busy := map[uint32]bool{}
		es, done := make([]Entry, entries), make([]Done, entries)
		for len(script) >= 4 {
			op, arg, v := script[0], binary.LittleEndian.Uint16(script[1:]), script[3]
			script = script[4:]
			switch op % 6 {
			case 0: // the host pushes
				for n := range uint32(entries) {
					if !busy[n] {
						h.Push(n, entryOf(v))
						busy[n] = true
						break
					}
				}
				h.Publish()
			case 1: // a word of the head
				word32(r.Plugin, int(arg%headSize)&^3).Store(uint32(v) * 0x01010101)
			case 2: // a byte of anything
				r.Plugin[int(arg)%len(r.Plugin)] = v
			case 3: // an honest plugin's step
				if n, err := p.Take(es); err == nil {
					for _, e := range es[:n] {
						p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
					}
					p.Publish()
				}
			case 4: // the tail
				word32(r.Plugin, offTail).Store(uint32(int8(v)))
			case 5:
				h.Sleep()
				h.Pulse()
				h.Awake()
			}
			n, err := h.Pop(done)
			for _, d := range done[:n] {
				if !busy[d.Slot] || d.Code > MaxCode || (d.At != 0 && (d.Code != codeMiscompare || d.At >= 512)) {
					t.Fatalf("completion %+v, slots in flight %v", d, busy)
				}
				delete(busy, d.Slot)
			}
			if err != nil {
				return
			}
			if int(h.InFlight()) != len(busy) {
				t.Fatalf("%d in flight, %v are", h.InFlight(), busy)
			}
		}
	})
}

// entryOf is a good entry of any operation.
func entryOf(v uint8) Entry {
	e := read(int(v))
	e.Op = v%opWriteSame + 1
	switch e.Op {
	case opUnmap, opWriteZeroes:
		e.Arena, e.Length, e.Extent = 0, 0, 1<<40
	case opCompareAndWrite:
		e.Length = 1024
	case opWriteSame:
		e.Extent = 1 << 40
	}
	return e
}

// FuzzHostileHost lets the input decide what stands in the host's region. The plugin never panics and never
// takes an entry that reaches outside the arena.
func FuzzHostileHost(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0}, uint32(1))
	f.Add([]byte{24, 0xff, 0, 0}, uint32(4))
	f.Fuzz(func(t *testing.T, script []byte, tail uint32) {
		const entries = 4
		h, p, r := pair(t, entries)
		for i := range uint32(entries) {
			h.Push(i, entryOf(uint8(i)+opUnmap-1))
		}
		for ; len(script) >= 4; script = script[4:] {
			at := headSize + int(binary.LittleEndian.Uint16(script))%(entries*SQESize)
			r.Host[at] = script[2]
		}
		word32(r.Host, offTail).Store(tail)
		es := make([]Entry, entries)
		n, _ := p.Take(es)
		for _, e := range es[:n] {
			if e.Arena > arenaSize || uint64(e.Length) > arenaSize-e.Arena || e.Op < opRead || e.Op > opWriteSame {
				t.Fatalf("took %+v", e)
			}
		}
	})
}
