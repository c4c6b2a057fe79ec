package initiator

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestDataGoesThereAndBack writes and reads in every format, and looks at which one the target saw.
func TestDataGoesThereAndBack(t *testing.T) {
	rows := []struct {
		format    Format
		lens      []uint64
		immediate bool
		out, in   srp.Format
	}{
		{FormatAuto, []uint64{4096}, false, srp.FormatDirect, srp.FormatDirect},
		{FormatAuto, []uint64{4096}, true, srp.FormatImmediate, srp.FormatDirect},
		{FormatAuto, []uint64{8192}, true, srp.FormatImmediate, srp.FormatDirect},
		{FormatAuto, []uint64{8704}, true, srp.FormatDirect, srp.FormatDirect},
		{FormatAuto, []uint64{512, 1024, 2560}, false, srp.FormatIndirect, srp.FormatIndirect},
		{FormatAuto, []uint64{512, 1024, 2560}, true, srp.FormatIndirect, srp.FormatIndirect},
		{FormatDirect, []uint64{4096}, true, srp.FormatDirect, srp.FormatDirect},
		{FormatIndirect, []uint64{4096}, true, srp.FormatIndirect, srp.FormatIndirect},
		{FormatIndirect, []uint64{1, 511, 300, 212, 512, 512, 512, 512, 512, 512}, false, srp.FormatIndirect, srp.FormatIndirect},
		{FormatImmediate, []uint64{512}, true, srp.FormatImmediate, srp.FormatDirect},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				b.cfg.Immediate = row.immediate
				s := b.dial()
				var total int
				for _, n := range row.lens {
					total += int(n)
				}
				blocks := uint32(total / blockSize)
				mem := b.memory(s, total)
				data := noise(total)
				copy(mem.Bytes(), data)
				c := &Command{CDB: Write16(3, blocks), Out: pieces(mem, row.lens...), Format: row.format}
				if err := <-b.start(s, c); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b.disk.Bytes()[3*blockSize:][:total], data) {
					t.Error("the disk differs from what was written")
				}
				clear(mem.Bytes())
				c = &Command{CDB: Read16(3, blocks), In: pieces(mem, row.lens...), Format: row.format}
				if err := <-b.start(s, c); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(mem.Bytes(), data) {
					t.Error("what was read differs from the disk")
				}
				if b.out[row.out].Load() != 1 || b.in[row.in].Load() != 1 {
					t.Errorf("the target did not see the formats %d and %d", row.out, row.in)
				}
			})
		})
	}
}

func TestACommandThatCannotBeEncodedFailsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		s := b.dial()
		mem := b.memory(s, 4096)
		many := make([]uint64, 300)
		rows := map[string]*Command{
			"beyond the region":   {Out: []rdma.SGE{{Region: mem, Off: 1, Len: 4096}}},
			"offset wraps":        {In: []rdma.SGE{{Region: mem, Off: 1 << 63, Len: 1 << 63}}},
			"no region":           {In: []rdma.SGE{{Len: 1}}},
			"direct in pieces":    {In: pieces(mem, 1, 1), Format: FormatDirect},
			"immediate ungranted": {Out: pieces(mem, 1), Format: FormatImmediate},
			"more than a table":   {In: pieces(mem, many...)},
			"unit too long":       {In: pieces(mem, many[:20]...)},
		}
		for name, c := range rows {
			if err := <-b.start(s, c); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if err := s.TestUnitReady(t.Context(), srp.LUN{}); err != nil {
			t.Error(err)
		}
		if n := s.Stats().Commands; n != 1 {
			t.Errorf("%d commands were sent, want 1", n)
		}
	})
}

func TestCommandsSpreadOverTheChannels(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.cfg.Channels = 2
		held := make(map[*conn]int)
		b.command = func(c *conn, cmd *srp.Cmd) { held[c]++ }
		s := b.dial()
		for range 10 {
			if _, err := s.Submit(&Command{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if _, err := s.Submit(&Command{Channel: 2}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		b.loop.Do(func() {
			if held[b.conns[0]] != 5 || held[b.conns[1]] != 8 {
				t.Errorf("%d and %d commands, want 5 and 8", held[b.conns[0]], held[b.conns[1]])
			}
		})
	})
}

func TestCommandsAreSentInTheOrderOfSubmission(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		var got []byte
		b.command = func(c *conn, cmd *srp.Cmd) {
			got = append(got, cmd.CDB()[1])
			c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1})
		}
		s := b.dial()
		done := make(chan struct{}, 200)
		var list []*Command
		for i := range 200 {
			list = append(list, &Command{CDB: [16]byte{0, byte(i)}, Done: func(*Command) { done <- struct{}{} }})
		}
		if n, err := s.Submit(list...); n != 200 {
			t.Fatal(err)
		}
		for range 200 {
			<-done
		}
		for i, v := range got {
			if v != byte(i) {
				t.Fatalf("command %d came at place %d", v, i)
			}
		}
	})
}

func TestDoneMaySubmitAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		s := b.dial()
		left, done := 1000, make(chan struct{})
		c := &Command{}
		c.Done = func(c *Command) {
			if err := c.Result.Check(); err != nil {
				t.Error(err)
			}
			if left--; left == 0 {
				close(done)
				return
			}
			if _, err := s.Submit(c); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Submit(c); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}

func TestACommandInUseIsNotTakenTwice(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.command = func(*conn, *srp.Cmd) {}
		s := b.dial()
		c := &Command{}
		if n, err := s.Submit(c, c); n != 1 || !errors.Is(err, ErrBusy) {
			t.Errorf("%d taken with %v, want 1 with ErrBusy", n, err)
		}
	})
}

func TestAFullSendQueueIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		s := b.dial()
		b.a.LimitSends(2)
		done := make(chan error, 50)
		for range 50 {
			if _, err := s.Submit(&Command{Done: func(c *Command) { done <- c.Result.Check() }}); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestResidualsAndSenseAreInTheResult(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.command = func(c *conn, cmd *srp.Cmd) {
			sense := make([]byte, 252)
			sense[0], sense[2], sense[12], sense[13], sense[251] = 0x70, 5, 0x24, 1, 99
			c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1, Status: 2, Sense: sense, In: 512, Out: -7})
		}
		s := b.dial()
		res, err := s.Do(t.Context(), srp.LUN{}, []byte{0}, nil, make([]byte, 512))
		if err != nil {
			t.Fatal(err)
		}
		if res.Status != 2 || res.In != 512 || res.Out != -7 || len(res.Sense()) != 252 || res.Sense()[251] != 99 {
			t.Errorf("status %d, residuals %d and %d, %d bytes of sense", res.Status, res.In, res.Out, len(res.Sense()))
		}
		var status *StatusError
		if err := res.Check(); !errors.As(err, &status) {
			t.Fatalf("Check: %v", err)
		}
		if key, asc, ascq := status.Code(); key != 5 || asc != 0x24 || ascq != 1 {
			t.Errorf("sense %x/%x/%x", key, asc, ascq)
		}
	})
}

// fdDevice is a device whose completion queues wake by a descriptor.
type fdDevice struct{ *rdmatest.Device }

type fdCQ struct {
	rdma.CQ
	fd int
}

func (d fdDevice) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	cfg.Wake = func() { unix.Write(fd, one) }
	inner, err := d.Device.NewCQ(cfg)
	return &fdCQ{inner, fd}, err
}

func (c *fdCQ) FD() int { return c.fd }

func (c *fdCQ) Poll(out []rdma.Completion) int {
	var counter [8]byte
	unix.Read(c.fd, counter[:])
	return c.CQ.Poll(out)
}

func (c *fdCQ) Close() error {
	err := c.CQ.Close()
	unix.Close(c.fd)
	return err
}

func TestASessionSleepsOnADescriptor(t *testing.T) {
	leaktest.Check(t)
	b := newBed(t)
	b.cfg.Device = fdDevice{b.a}
	s := b.dial()
	data, got := noise(4*blockSize), make([]byte, 4*blockSize)
	for i := range uint64(200) {
		data[0] = byte(i)
		if err := s.Write(t.Context(), srp.LUN{}, i, 4, data); err != nil {
			t.Fatal(err)
		}
		if err := s.Read(t.Context(), srp.LUN{}, i, 4, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	// Deadlines of the queue end the sleep as well.
	b.b.Vanish()
	if _, err := s.Do(t.Context(), srp.LUN{}, []byte{0}, nil, nil); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Do: %v, want ErrDisconnected", err)
	}
}
