package nvme

import (
	"math"
	"strings"
	"testing"
)

// Whatever a controller answers, it is refused, or the description is one that a host can use.
func FuzzIdentify(f *testing.F) {
	a := newAnswers(loopBytes)
	f.Add(a.ctrl[:offAWUPF+2], a.ns[:offFormats+32], a.descriptors[:20], byte(0), uint64(0))
	set16(a.ns, offNPWG, 7)
	set16(a.ctrl, offAWUPF, 255)
	a.ns[offFLBAS] = 4
	f.Add(a.ctrl[:offAWUPF+2], a.ns[:offFormats+32], idDescriptor(typeUUID, 1), byte(warnReadOnly), uint64(128<<10))
	f.Fuzz(func(t *testing.T, ctrl, ns, descriptors []byte, warnings byte, kernel uint64) {
		fill := func(b []byte) []byte { return append(b, make([]byte, max(identifySize-len(b), 0))...) }
		a := &answers{nsid: 1, ctrl: fill(ctrl), ns: fill(ns), descriptors: descriptors, health: []byte{warnings}}
		d, err := a.kernel().describe(-1)
		if err != nil {
			return
		}
		d.queue = queue{maxTransfer: kernel}
		blocks := d.ns.blocks()
		bs, err := d.blockSize()
		if err == nil && blocks <= math.MaxInt64/uint64(bs) {
			d.size = int64(blocks) * int64(bs)
		}
		i, err := d.info(false)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		pb := i.PhysicalBlockSize
		switch {
		case i.Blocks != blocks || i.Blocks == 0 || i.BlockSize != 512 && i.BlockSize != 4096:
			t.Errorf("geometry: %+v", i)
		case pb < i.BlockSize || pb&(pb-1) != 0 || pb/i.BlockSize > maxRatio:
			t.Errorf("physical block: %+v", i)
		case i.MaxTransfer%i.BlockSize != 0 || i.OptimalTransfer%i.BlockSize != 0:
			t.Errorf("limits: %+v", i)
		case strings.ContainsAny(i.Serial+i.Notice, "\n\r"):
			t.Errorf("more than one line: %+v", i)
		case warnings&warnReadOnly != 0 && !i.ReadOnly:
			t.Error("the media are read-only, the store is not")
		}
	})
}

func FuzzDescriptors(f *testing.F) {
	f.Add(idDescriptor(typeEUI64, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(idDescriptor(typeUUID, 1))
	f.Add([]byte{99, 255, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var i identity
		if _, err := i.addDescriptors(b); err == nil && len(b) >= descriptorHead && b[0] == typeUUID && b[1] != 0 && b[1] != 16 {
			t.Errorf("a UUID of %d bytes is taken", b[1])
		}
	})
}
