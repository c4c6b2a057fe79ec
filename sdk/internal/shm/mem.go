package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Seals that Create and Seal set. A sealed memory cannot be truncated under its mappings, which would kill
// whoever touches the missing page.
const (
	sealSize = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	// sealPeerReadOnly stops every writable mapping made from now on; those that exist keep writing.
	sealPeerReadOnly = unix.F_SEAL_FUTURE_WRITE
)

const (
	hugePage     = 2 << 20
	mfdNoexec    = 0x8
	maxMapLength = 1 << 46
)

// ErrSize says that a memory has not the length that its owner announced.
var ErrSize = errors.New("shm: the memory has another size than announced")

// Mem is a memfd and its mapping. Its creator seals it; a peer maps it with Map.
type Mem struct {
	fd   int
	b    []byte
	huge bool
}

// Options choose how Create makes a memory.
type Options struct {
	// Huge asks for 2 MiB pages; where the system has none left, ordinary ones are used.
	Huge bool
	// PeerReadOnly lets only the creator write.
	PeerReadOnly bool
}

// Create makes a memory of size bytes, all its pages present, sealed against any change of size, mapped for reading
// and writing. Huge memory is rounded up to whole huge pages.
func Create(name string, size int, o Options) (*Mem, error) {
	if size <= 0 || size > maxMapLength {
		return nil, fmt.Errorf("shm: create %s: impossible size %d", name, size)
	}
	if o.Huge {
		rounded := (size + hugePage - 1) / hugePage * hugePage
		if m, err := create(name, rounded, o, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB); err == nil {
			m.huge = true
			return m, nil
		}
	}
	return create(name, size, o, 0)
}

func create(name string, size int, o Options, flags int) (*Mem, error) {
	fd, err := memfd(name, flags)
	if err != nil {
		return nil, fmt.Errorf("shm: create %s: %w", name, err)
	}
	m := &Mem{fd: fd}
	if err := m.fill(size, o); err != nil {
		m.Close()
		return nil, fmt.Errorf("shm: create %s of %d bytes: %w", name, size, err)
	}
	return m, nil
}

func memfd(name string, flags int) (int, error) {
	flags |= unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|mfdNoexec)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		return unix.MemfdCreate(name, flags)
	}
	return fd, err
}

func (m *Mem) fill(size int, o Options) error {
	if err := unix.Ftruncate(m.fd, int64(size)); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	// A page that cannot be had later would be a SIGBUS; now it is an error.
	if err := unix.Fallocate(m.fd, 0, 0, int64(size)); err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	b, err := unix.Mmap(m.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	m.b = b
	seals := sealSize | unix.F_SEAL_SEAL
	if o.PeerReadOnly {
		seals |= sealPeerReadOnly
	}
	_, err = unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, seals)
	return os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
}

// Map maps a memory that a peer created and takes over fd. The memory must have exactly size bytes, or with huge pages size
// rounded up to them, and be sealed against a change of it.
func Map(fd int, size int, writable bool) (*Mem, error) {
	m := &Mem{fd: fd}
	if err := m.check(size); err != nil {
		m.Close()
		return nil, err
	}
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		m.Close()
		return nil, os.NewSyscallError("mmap", err)
	}
	m.b = b
	return m, nil
}

func (m *Mem) check(size int) error {
	var st unix.Stat_t
	if err := unix.Fstat(m.fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if size <= 0 || st.Size != int64(size) {
		return fmt.Errorf("%w: %d bytes, not %d", ErrSize, st.Size, size)
	}
	seals, err := unix.FcntlInt(uintptr(m.fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return os.NewSyscallError("fcntl(F_GET_SEALS)", err)
	}
	if seals&sealSize != sealSize {
		return errors.New("shm: the memory is not sealed against truncation")
	}
	return nil
}

// Bytes is the mapping. It must not be touched after Close.
func (m *Mem) Bytes() []byte { return m.b }

// Huge tells whether the memory has huge pages.
func (m *Mem) Huge() bool { return m.huge }

// FD is the descriptor, for passing it on. It stays the memory's.
func (m *Mem) FD() int { return m.fd }

// Close unmaps the memory and closes its descriptor. It may be called twice, not from two goroutines.
func (m *Mem) Close() error {
	var err error
	if m.b != nil {
		err = unix.Munmap(m.b)
		m.b = nil
	}
	if m.fd >= 0 {
		err = errors.Join(err, unix.Close(m.fd))
		m.fd = -1
	}
	return err
}
