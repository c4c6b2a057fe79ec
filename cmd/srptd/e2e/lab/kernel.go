package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Offsets of the x86 boot protocol's setup header in a bzImage (Documentation/arch/x86/boot.rst).
const (
	offSetupSects    = 0x1f1 // number of 512-byte set-up sectors after the first; 0 means 4
	offMagic         = 0x202 // "HdrS"
	offVersion       = 0x206 // protocol version; the payload fields came with 2.08
	offPayloadOffset = 0x248 // from the start of the protected-mode code
	offPayloadLength = 0x24c
	setupHeaderEnd   = 0x250
)

var errNotBzImage = errors.New("not a bzImage of boot protocol 2.08 or later")

// payload returns the compressed kernel inside a bzImage.
func payload(bzImage []byte) ([]byte, error) {
	if len(bzImage) < setupHeaderEnd || string(bzImage[offMagic:offMagic+4]) != "HdrS" {
		return nil, errNotBzImage
	}
	if binary.LittleEndian.Uint16(bzImage[offVersion:]) < 0x0208 {
		return nil, errNotBzImage
	}
	sects := uint64(bzImage[offSetupSects])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*512 + uint64(binary.LittleEndian.Uint32(bzImage[offPayloadOffset:]))
	end := start + uint64(binary.LittleEndian.Uint32(bzImage[offPayloadLength:]))
	if end > uint64(len(bzImage)) {
		return nil, fmt.Errorf("payload of bytes %d to %d in an image of %d bytes: %w", start, end, len(bzImage), errNotBzImage)
	}
	return bzImage[start:end], nil
}

// unpackKernel writes the ELF kernel inside the bzImage to out. QEMU boots the ELF by its PVH entry, which spares the guest
// the decompression: about ten seconds on an emulated CPU.
func unpackKernel(ctx context.Context, bzImage, out string) error {
	image, err := os.ReadFile(bzImage)
	if err != nil {
		return fmt.Errorf("lab: read the guest's kernel: %w", err)
	}
	packed, err := payload(image)
	if err != nil {
		return fmt.Errorf("lab: %s: %w", bzImage, err)
	}
	return writeFile(out, 0o644, func(w io.Writer) error { return unxz(ctx, packed, w) })
}

// unxz decompresses the first xz stream of packed; the kernel's build appends the unpacked size to it.
func unxz(ctx context.Context, packed []byte, w io.Writer) error {
	if !bytes.HasPrefix(packed, []byte("\xfd7zXZ\x00")) {
		return errors.New("lab: the guest's kernel is not packed by xz: another Debian release than " + release + "?")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "xz", "--decompress", "--stdout", "--single-stream", "--format=xz")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(packed), w, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("lab: xz the guest's kernel: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// writeFile creates path and lets fill write it, removing a file that could not be filled.
func writeFile(path string, mode os.FileMode, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Close())
	if err != nil {
		os.Remove(path)
	}
	return err
}
