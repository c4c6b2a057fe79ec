package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bzImage builds an image of the given set-up sectors whose payload starts offset bytes after them.
func bzImage(sects byte, version uint16, offset, length uint32, body []byte) []byte {
	b := make([]byte, (int(max(sects, 1))+1)*512)
	if sects == 0 {
		b = make([]byte, 5*512)
	}
	b[offSetupSects] = sects
	copy(b[offMagic:], "HdrS")
	binary.LittleEndian.PutUint16(b[offVersion:], version)
	binary.LittleEndian.PutUint32(b[offPayloadOffset:], offset)
	binary.LittleEndian.PutUint32(b[offPayloadLength:], length)
	return append(b, body...)
}

func TestPayloadOfABzImage(t *testing.T) {
	body := []byte("....kernel....")
	noMagic := bzImage(1, 0x20f, 4, 6, body)
	noMagic[offMagic] = 0
	tests := []struct {
		name  string
		image []byte
		want  string // "" for an error
	}{
		{"one set-up sector", bzImage(1, 0x20f, 4, 6, body), "kernel"},
		{"0 set-up sectors mean 4", bzImage(0, 0x20f, 4, 6, body), "kernel"},
		{"up to the last byte", bzImage(2, 0x208, 4, 10, body), "kernel...."},
		{"past the end", bzImage(2, 0x208, 4, 11, body), ""},
		{"offset near 2^32", bzImage(2, 0x208, 1<<32-1, 6, body), ""},
		{"length near 2^32", bzImage(2, 0x208, 4, 1<<32-1, body), ""},
		{"old protocol", bzImage(1, 0x207, 4, 6, body), ""},
		{"no magic", noMagic, ""},
		{"header cut short", bzImage(1, 0x20f, 4, 6, body)[:setupHeaderEnd-1], ""},
		{"empty", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := payload(tt.image)
			if string(got) != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("payload = %q, %v, want %q", got, err, tt.want)
			}
			if err != nil && !errors.Is(err, errNotBzImage) {
				t.Errorf("error %v is not errNotBzImage", err)
			}
		})
	}
}

func TestKernelIsUnpackedUpToTheSizeBehindIt(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not installed; the build of the guest installs it")
	}
	cmd := exec.Command("xz", "--compress", "--stdout")
	cmd.Stdin = bytes.NewReader([]byte("an ELF file"))
	packed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packed = append(packed, 11, 0, 0, 0)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "vmlinux")
	if err := os.WriteFile(in, bzImage(3, 0x20f, 0, uint32(len(packed)), packed), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpackKernel(t.Context(), in, out); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); string(b) != "an ELF file" || err != nil {
		t.Errorf("unpacked %q, %v", b, err)
	}
}

func TestKernelPackedOtherwiseIsRefusedAndLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "vmlinux")
	if err := os.WriteFile(in, bzImage(3, 0x20f, 0, 4, []byte{0x28, 0xb5, 0x2f, 0xfd}), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpackKernel(t.Context(), in, out); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a half kernel is left: %v", err)
	}
}
