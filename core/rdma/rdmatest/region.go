package rdmatest

import "github.com/gosrpt/gosrpt/core/rdma"

// region is registered memory.
type region struct {
	dev    *Device
	mem    []byte
	access rdma.Access
	addr   uint64
	key    uint32
	closed bool
}

var _ rdma.Region = (*region)(nil)

func (r *region) Bytes() []byte { return r.mem }
func (r *region) Addr() uint64  { return r.addr }
func (r *region) RKey() uint32  { return r.key }

func (r *region) Close() error {
	r.dev.fabric.mu.Lock()
	defer r.dev.fabric.unlock()
	r.close()
	return nil
}

func (r *region) close() {
	if r.closed {
		return
	}
	r.closed = true
	delete(r.dev.regions, r)
	if r.access.Remote() != 0 {
		delete(r.dev.byKey, r.key)
	}
}

// remote finds the n bytes at addr that a peer names, if the key gives it that access.
func (d *Device) remote(key uint32, addr, n uint64, need rdma.Access) ([]byte, bool) {
	r := d.byKey[key]
	if r == nil || r.access&need != need || addr < r.addr {
		return nil, false
	}
	off, size := addr-r.addr, uint64(len(r.mem))
	if off > size || n > size-off {
		return nil, false
	}
	return r.mem[off : off+n], true
}

// piece is a checked SGE.
type piece struct {
	r      *region
	off, n uint64
}

func (p piece) bytes() []byte { return p.r.mem[p.off : p.off+p.n] }

// check turns an SGE into a piece if it lies inside an open region of the device.
func (d *Device) check(s rdma.SGE) (piece, bool) {
	r, ok := s.Region.(*region)
	if !ok || r == nil || r.dev != d || r.closed {
		return piece{}, false
	}
	size := uint64(len(r.mem))
	if s.Off > size || s.Len > size-s.Off {
		return piece{}, false
	}
	return piece{r, s.Off, s.Len}, true
}

// gather copies from a list to a list, as far as both go.
func gather(dst, src []piece) {
	var di, si int
	var dOff, sOff uint64
	for di < len(dst) && si < len(src) {
		n := uint64(copy(dst[di].bytes()[dOff:], src[si].bytes()[sOff:]))
		dOff, sOff = dOff+n, sOff+n
		if dOff == dst[di].n {
			di, dOff = di+1, 0
		}
		if sOff == src[si].n {
			si, sOff = si+1, 0
		}
	}
}

// collect copies the bytes of a list to memory that is at least as long.
func collect(dst []byte, src []piece) {
	for _, p := range src {
		dst = dst[copy(dst, p.bytes()):]
	}
}

// spread copies memory into a list that is at least as long.
func spread(dst []piece, src []byte) {
	for _, p := range dst {
		src = src[copy(p.bytes(), src):]
	}
}
