package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// fill stamps every 16 bytes of p with the offset they stand at and the pass that wrote them.
func fill(p []byte, off int64, pass uint64) {
	for i := 0; i+16 <= len(p); i += 16 {
		binary.LittleEndian.PutUint64(p[i:], uint64(off)+uint64(i))
		binary.LittleEndian.PutUint64(p[i+8:], pass*0x9e3779b97f4a7c15+uint64(i))
	}
}

// Verify writes the whole range with stamps of their own for each 16 bytes, reads it back and compares. step is
// called as it goes on, with the bytes moved of the bytes there are to move; it may be nil.
func Verify(ctx context.Context, dev Device, job Job, pass uint64, step func(moved, all int64)) error {
	job.Range = min(job.Range, dev.Size()) / int64(job.Block) * int64(job.Block)
	bufs, err := dev.Buffers(job.Depth, job.Block)
	if err != nil {
		return err
	}
	v := &verifier{dev: dev, job: job, pass: pass, ctx: ctx, step: step, want: make([][]byte, job.Depth)}
	for i := range v.want {
		v.want[i] = make([]byte, job.Block)
	}
	for _, write := range []bool{true, false} {
		v.next = 0
		v.left.Add(job.Depth)
		for i := range job.Depth {
			v.start(&IO{Buf: bufs[i], Slot: i, Write: write, Done: v.done})
		}
		v.left.Wait()
		if err := errors.Join(v.err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	dev  Device
	job  Job
	pass uint64
	ctx  context.Context
	step func(moved, all int64)
	want [][]byte

	mu    sync.Mutex
	next  int64
	moved int64
	err   error
	left  sync.WaitGroup
}

func (v *verifier) start(io *IO) {
	v.mu.Lock()
	io.Off = v.next
	v.next += int64(v.job.Block)
	over := io.Off >= v.job.Range || v.err != nil || v.ctx.Err() != nil
	v.mu.Unlock()
	if over {
		v.left.Done()
		return
	}
	if io.Write {
		fill(io.Buf, io.Off, v.pass)
	} else {
		clear(io.Buf)
	}
	v.dev.Submit(io)
}

func (v *verifier) done(io *IO, err error) {
	if err == nil && !io.Write {
		err = v.compare(io)
	}
	v.mu.Lock()
	if err != nil {
		v.err = errors.Join(v.err, fmt.Errorf("at offset %d: %w", io.Off, err))
	}
	v.moved += int64(len(io.Buf))
	moved := v.moved
	v.mu.Unlock()
	if v.step != nil {
		v.step(moved, 2*v.job.Range)
	}
	v.start(io)
}

// ErrData says that what was read is not what was written.
var ErrData = errors.New("read data differs from what was written")

func (v *verifier) compare(io *IO) error {
	want := v.want[io.Slot]
	fill(want, io.Off, v.pass)
	if bytes.Equal(io.Buf, want) {
		return nil
	}
	for i := range want {
		if io.Buf[i] != want[i] {
			return fmt.Errorf("%w, first in byte %d of the block: %02x, want %02x", ErrData, i, io.Buf[i], want[i])
		}
	}
	return nil
}
