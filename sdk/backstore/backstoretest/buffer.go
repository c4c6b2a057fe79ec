package backstoretest

import (
	"encoding/binary"
	"syscall"
	"testing"
)

const (
	page   = 4096
	canary = 0xc5
)

// buffer is shared memory with a page of canaries on each side.
type buffer struct{ all []byte }

// newBuffer makes n bytes, aligned to a page.
func newBuffer(t testing.TB, n int) *buffer {
	t.Helper()
	size := page + (n+page-1)/page*page + page
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		t.Fatalf("mapping %d bytes: %v", size, err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	for i := range b {
		b[i] = canary
	}
	return &buffer{all: b}
}

// data is the first n bytes of the buffer.
func (b *buffer) data(n int) []byte { return b.all[page : page+n : page+n] }

// intact fails the test if a byte outside the first n of the buffer was touched.
func (b *buffer) intact(t testing.TB, n int) {
	t.Helper()
	for _, part := range [][]byte{b.all[:page], b.all[page+n:]} {
		for i, c := range part {
			if c != canary {
				t.Errorf("a byte outside the buffer of %d bytes was touched (%d)", n, i)
				return
			}
		}
	}
}

// fill writes a pattern that tells the offset and the round of every eight bytes.
func fill(p []byte, off int64, round byte) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], uint64(off)+uint64(i)|uint64(round)<<56)
	}
}

// holds tells whether p has the pattern.
func holds(p []byte, off int64, round byte) bool {
	for i := 0; i+8 <= len(p); i += 8 {
		if binary.LittleEndian.Uint64(p[i:]) != uint64(off)+uint64(i)|uint64(round)<<56 {
			return false
		}
	}
	return true
}
