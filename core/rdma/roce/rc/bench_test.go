package rc

import "testing"

// pair is two machines joined without a link.
type pair struct {
	a, b *Machine
	now  int64
	out  Packet
	buf  []byte
}

func newPair(mem Memory) *pair {
	p := &pair{a: New(testConfig(mem)), b: New(testConfig(mem)), now: 1}
	pa, pb := pairParams(4096, 1, 1)
	p.a.Start(1, pa)
	p.b.Start(1, pb)
	return p
}

func (p *pair) exchange() {
	for moved := true; moved; {
		moved = p.move(p.a, p.b)
		moved = p.move(p.b, p.a) || moved
	}
}

func (p *pair) move(from, to *Machine) bool {
	moved := false
	for from.Next(p.now, &p.out) {
		moved = true
		if p.out.MoreLen > 0 {
			p.buf = p.out.AppendPayload(p.buf[:0])
			p.out.Payload, p.out.More, p.out.MoreLen = p.buf, nil, 0
		}
		to.Receive(p.now, &p.out)
	}
	p.now += 1000
	return moved
}

func benchKind(b *testing.B, k Kind, n int) {
	mem := &fabricMemory{key: tKey, base: tBase, b: make([]byte, 1<<20)}
	p := newPair(mem)
	w := Work{Kind: k, Signaled: true, RKey: tKey, VA: tBase, Segs: [][]byte{make([]byte, n)}}
	recv := [][]byte{make([]byte, n)}
	var c [4]Completion
	round := func() {
		p.b.PostRecv(1, recv)
		p.a.PostSend(&w)
		p.exchange()
		if p.a.Poll(c[:]) != 1 || c[0].Status != OK {
			b.Fatal("not completed")
		}
		p.b.Poll(c[:])
	}
	round()
	b.SetBytes(int64(n))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		round()
	}
}

func BenchmarkSend64(b *testing.B)    { benchKind(b, Send, 64) }
func BenchmarkWrite4K(b *testing.B)   { benchKind(b, Write, 4096) }
func BenchmarkRead4K(b *testing.B)    { benchKind(b, Read, 4096) }
func BenchmarkWrite256K(b *testing.B) { benchKind(b, Write, 256<<10) }
func BenchmarkRead256K(b *testing.B)  { benchKind(b, Read, 256<<10) }

func TestThePacketPathAllocatesNothing(t *testing.T) {
	mem := &fabricMemory{key: tKey, base: tBase, b: make([]byte, 1<<20)}
	p := newPair(mem)
	recv := [][]byte{make([]byte, 100<<10)}
	var c [8]Completion
	for _, k := range []Kind{Send, Write, Read} {
		w := Work{Kind: k, Signaled: true, RKey: tKey, VA: tBase, Segs: [][]byte{make([]byte, 100<<10)}}
		n := testing.AllocsPerRun(20, func() {
			p.b.PostRecv(1, recv)
			p.a.PostSend(&w)
			p.exchange()
			p.a.Poll(c[:])
			p.b.Poll(c[:])
		})
		if n != 0 {
			t.Errorf("kind %d: %v allocations", k, n)
		}
	}
}
