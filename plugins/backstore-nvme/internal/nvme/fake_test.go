package nvme

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// answers are what a controller says. newAnswers makes those of QEMU's controller for a namespace of 512-byte blocks; a test
// changes them.
type answers struct {
	nsid                          uint32
	ctrl, ns, descriptors, health []byte
	// errs fail a command, by opcode<<8 + CNS or log page, or the question for the number (0).
	errs map[uint32]error
}

const (
	qemuMDTS = 7
	qemuEUI  = "5254000000000001"
)

func newAnswers(bytes int64) *answers {
	a := &answers{
		nsid: 1, ctrl: make([]byte, identifySize), ns: make([]byte, identifySize), descriptors: make([]byte, identifySize),
		health: make([]byte, healthSize), errs: map[uint32]error{},
	}
	copy(a.ctrl[offSN:], "gosrptnvme          ")
	a.ctrl[offMDTS], a.ctrl[offVWC] = qemuMDTS, 7
	a.ns[offNLBAF], a.ns[offFLBAS], a.ns[offNSFEAT] = 7, 0, 0x10|0x04
	for i := range 8 {
		a.setFormat(i, uint16([]int{0, 8, 16, 64}[i%4]), uint8(9+3*(i/4)), 0)
	}
	setBlocks(a.ns, uint64(bytes/512))
	copy(a.ns[offEUI64:], []byte{0x52, 0x54, 0, 0, 0, 0, 0, 1})
	copy(a.descriptors, idDescriptor(typeEUI64, 0x52, 0x54, 0, 0, 0, 0, 0, 1))
	copy(a.descriptors[12:], idDescriptor(typeCommandSet, 0))
	return a
}

// idDescriptor is a Namespace Identification Descriptor.
func idDescriptor(kind byte, id ...byte) []byte {
	return append([]byte{kind, byte(len(id)), 0, 0}, id...)
}

func (a *answers) setFormat(i int, metadata uint16, shift, relative uint8) {
	f := a.ns[offFormats+4*i:]
	binary.LittleEndian.PutUint16(f, metadata)
	f[2], f[3] = shift, relative
}

func setBlocks(ns []byte, n uint64) { binary.LittleEndian.PutUint64(ns[offNSZE:], n) }

func set16(b []byte, off int, v uint16) { binary.LittleEndian.PutUint16(b[off:], v) }

// admin answers as ioctlAdmin does.
func (a *answers) admin(_ int, c command, data []byte) error {
	if err := a.errs[uint32(c.opcode)<<8|c.cdw10&0xff]; err != nil {
		return err
	}
	switch {
	case c.opcode == opGetLogPage && c.cdw10 == 127<<16|2 && c.nsid == 0xffffffff:
		copy(data, a.health)
	case c.opcode == opIdentify && c.cdw10 == cnsController && c.nsid == 0:
		copy(data, a.ctrl)
	case c.opcode == opIdentify && c.cdw10 == cnsNamespace && c.nsid == a.nsid:
		copy(data, a.ns)
	case c.opcode == opIdentify && c.cdw10 == cnsDescriptors && c.nsid == a.nsid:
		copy(data, a.descriptors)
	default:
		return statusError(0x4002) // Invalid Field in Command, do not retry
	}
	return nil
}

// kernel is this machine's kernel, with a controller that answers a behind every descriptor.
func (a *answers) kernel() *kernel {
	k := linux
	k.nsid = func(int) (uint32, error) { return a.nsid, a.errs[0] }
	k.admin = a.admin
	return &k
}

// describe asks a as if there were no kernel's limits.
func (a *answers) describe(t *testing.T) *description {
	t.Helper()
	d, err := a.kernel().describe(-1)
	if err != nil {
		t.Fatal(err)
	}
	d.device, d.size = "/dev/nvme0n1", int64(d.ns.blocks())<<d.ns.format(d.ns.formatIndex()).shift
	d.queue.flushes = true
	return d
}

const loopBytes = 4 << 20

// loopDevice makes a block device of loopBytes with sectors of a size, and returns its path and that of what holds its bytes. It
// ends with the test.
func loopDevice(t testing.TB, sector string) (dev, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "medium")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, loopBytes); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", "--sector-size", sector, file).CombinedOutput()
	if err != nil {
		t.Skipf("a loop device cannot be made here (root and losetup of util-linux are needed): %v: %s", err, out)
	}
	dev = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v: %s", dev, err, out)
		}
	})
	return dev, file
}

// mount mounts a file system and unmounts it with the test.
func mount(t *testing.T, source, kind string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(source, dir, kind, 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return dir
}
