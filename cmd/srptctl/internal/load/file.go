package load

import (
	"io"
	"os"
	"sync"

	"github.com/ncw/directio"
)

// File is a raw file or block device, read and written directly.
type File struct {
	f    *os.File
	size int64
	work chan *IO
	wg   sync.WaitGroup
}

// OpenFile opens path for direct I/O. Writing needs write to be true.
func OpenFile(path string, write bool) (*File, error) {
	mode := os.O_RDONLY
	if write {
		mode = os.O_RDWR
	}
	f, err := directio.OpenFile(path, mode, 0)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f: f, size: size}, nil
}

// Size implements Device.
func (d *File) Size() int64 { return d.size }

// Buffers implements Device: it also starts n workers, one for each request outstanding.
func (d *File) Buffers(n, size int) ([][]byte, error) {
	d.stop()
	d.work = make(chan *IO, n)
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = directio.AlignedBlock(size)
		d.wg.Go(d.serve)
	}
	return bufs, nil
}

func (d *File) serve() {
	for r := range d.work {
		var err error
		if r.Write {
			_, err = d.f.WriteAt(r.Buf, r.Off)
		} else {
			_, err = d.f.ReadAt(r.Buf, r.Off)
		}
		r.Done(r, err)
	}
}

// Submit implements Device.
func (d *File) Submit(r *IO) { d.work <- r }

func (d *File) stop() {
	if d.work != nil {
		close(d.work)
		d.wg.Wait()
		d.work = nil
	}
}

// Close ends the workers and closes the file. Nothing is outstanding.
func (d *File) Close() error {
	d.stop()
	return d.f.Close()
}
