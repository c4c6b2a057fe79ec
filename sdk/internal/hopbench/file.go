package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/host"
)

const (
	filePlugin = "github.com/gosrpt/gosrpt/plugins/backstore-file"
	fileBench  = filePlugin + "/internal/filebench"
	// fileBlocks is how long the file is, in blocks of 4 KiB.
	fileBlocks = 32 << 10
)

// fileSide measures the file backstore: as a plugin, and the same reads of the same file without a process between.
type fileSide struct {
	dir   string
	arena *host.Arena
	ring  *host.Process
	hop   *ringHop
	fd    int // O_DIRECT
	bench *fileBencher
}

// buildFile compiles what is measured into dir.
func buildFile(dir string) error {
	for _, pkg := range []string{filePlugin, fileBench} {
		cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// startFile starts what buildFile made. Its file lies in dir.
func startFile(ctx context.Context, dir string) (*fileSide, error) {
	f := &fileSide{dir: dir, fd: -1}
	if err := f.start(ctx); err != nil {
		f.tearDown(ctx)
		return nil, err
	}
	return f, nil
}

func (f *fileSide) start(ctx context.Context) (err error) {
	disk := filepath.Join(f.dir, "disk")
	if err := fill(disk); err != nil {
		return err
	}
	if f.fd, err = unix.Open(disk, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0); err != nil {
		return &os.PathError{Op: "open for direct I/O", Path: disk, Err: err}
	}
	if f.bench, err = startFileBencher(filepath.Join(f.dir, filepath.Base(fileBench)), disk); err != nil {
		return err
	}
	if f.arena, err = host.NewArena(deep * small); err != nil {
		return err
	}
	f.ring, err = host.Start(ctx, host.Options{
		Path: filepath.Join(f.dir, filepath.Base(filePlugin)), Env: []string{"GOMAXPROCS=2"},
		Arena: f.arena, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		return err
	}
	f.hop, err = openHop(ctx, f.ring, f.arena, map[string]string{"path": disk, "direct": "on", "engine": "io_uring"})
	if err == nil {
		f.hop.blocks = fileBlocks
	}
	return err
}

// fill makes a file that has all of its blocks: a hole would be read without the device.
func fill(path string) error {
	w, err := directio.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	block := directio.AlignedBlock(1 << 20)
	random := rand.NewChaCha8([32]byte{})
	for n := 0; err == nil && n < fileBlocks*small; n += len(block) {
		_, _ = random.Read(block)
		_, err = w.Write(block)
	}
	return errors.Join(err, w.Sync(), w.Close())
}

func (f *fileSide) tearDown(ctx context.Context) {
	if f.hop != nil {
		f.hop.close()
	}
	if f.ring != nil {
		f.ring.Close(ctx)
	}
	if f.arena != nil {
		f.arena.Close()
	}
	if f.bench != nil {
		f.bench.close()
	}
	if f.fd >= 0 {
		unix.Close(f.fd)
	}
}

// pread reads at random from depth goroutines of this process, each for itself.
func (f *fileSide) pread(depth int, m *meter) error {
	return each(depth, func(i int) error {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		for {
			start := time.Now()
			if err := f.read(i, random); err != nil {
				return err
			}
			m.mu.Lock()
			more := m.add(start, time.Now())
			m.mu.Unlock()
			if !more {
				return nil
			}
		}
	})
}

// read fills the i-th buffer from a random block.
func (f *fileSide) read(i int, random *rand.Rand) error {
	n, err := unix.Pread(f.fd, f.arena.Bytes()[i*small:(i+1)*small], random.Int64N(fileBlocks)*small)
	if err != nil || n != small {
		return fmt.Errorf("pread: %d bytes, %w", n, err)
	}
	return nil
}

// pool does what a reactor with a pool of goroutines would: it hands depth requests out and takes them back.
func (f *fileSide) pool(depth int, m *meter) error {
	in, out := make(chan int, depth), make(chan int, depth)
	done := make(chan error, 1)
	go func() {
		done <- each(depth, func(worker int) error {
			random := rand.New(rand.NewPCG(uint64(worker), 0))
			var err error
			for i := range in {
				err = errors.Join(err, f.read(i, random))
				out <- i
			}
			return err
		})
	}()
	exchange(in, out, depth, m)
	close(in)
	return <-done
}

// fileBencher is the process that reads with the plugin's io_uring engine on its own account.
type fileBencher struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startFileBencher(path, disk string) (*fileBencher, error) {
	cmd := exec.Command(path, disk)
	cmd.Env, cmd.Stderr = []string{"GOMAXPROCS=2"}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &fileBencher{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// run has the process read. It returns the time that it took there.
func (b *fileBencher) run(depth int, d time.Duration, m *meter) (time.Duration, error) {
	if _, err := fmt.Fprintln(b.in, depth, d.Nanoseconds()); err != nil {
		return 0, err
	}
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("filebench ended: %w", err)
	}
	var r struct {
		Elapsed time.Duration
		Took    []time.Duration
	}
	if err := json.Unmarshal(line, &r); err != nil || r.Elapsed <= 0 || len(r.Took) == 0 {
		return 0, fmt.Errorf("filebench says %.80q: %v", line, err)
	}
	m.took = append(m.took, r.Took...)
	return r.Elapsed, nil
}

func (b *fileBencher) close() {
	b.in.Close()
	b.cmd.Wait()
}
