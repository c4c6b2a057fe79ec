package initiator

import (
	"context"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Do carries out a command and waits for it. cdb has up to 16 bytes; out is sent to the target, in
// is filled by it. Both are copied through memory of Do's own, so that they are the caller's again
// when Do returns, for whatever reason. The error tells why there is no SCSI status; if it is the
// context's, the command may still be carried out. A status other than GOOD is no error: see
// Result.Check.
func (s *Session) Do(ctx context.Context, lun srp.LUN, cdb, out, in []byte) (Result, error) {
	j := &job{done: make(chan struct{})}
	j.cmd = Command{LUN: lun, Done: j.finish}
	if len(cdb) > len(j.cmd.CDB) {
		return Result{}, s.fail("command", fmt.Errorf("%w: a CDB of %d bytes", ErrInvalid, len(cdb)))
	}
	copy(j.cmd.CDB[:], cdb)
	if err := j.lend(s, out, in); err != nil {
		return Result{}, s.fail("command", err)
	}
	if _, err := s.Submit(&j.cmd); err != nil {
		return Result{}, errors.Join(err, j.giveBack())
	}
	select {
	case <-j.done:
		if j.cmd.Result.Err == nil {
			copy(in, j.mem[len(out):])
		}
		return j.cmd.Result, j.cmd.Result.Err
	case <-ctx.Done():
		return Result{}, s.fail("command", ctx.Err())
	}
}

// job is a command of Do, with its memory: first what is sent, then what is received.
type job struct {
	cmd    Command
	mem    []byte
	region rdma.Region
	done   chan struct{}
}

func (j *job) lend(s *Session, out, in []byte) error {
	j.mem = make([]byte, len(out)+len(in))
	if len(j.mem) == 0 {
		return nil
	}
	var err error
	if j.region, err = s.Register(j.mem); err != nil {
		return err
	}
	copy(j.mem, out)
	if len(out) > 0 {
		j.cmd.Out = []rdma.SGE{{Region: j.region, Len: uint64(len(out))}}
	}
	if len(in) > 0 {
		j.cmd.In = []rdma.SGE{{Region: j.region, Off: uint64(len(out)), Len: uint64(len(in))}}
	}
	return nil
}

// finish runs in the session's goroutine, also when nobody waits any more.
func (j *job) finish(c *Command) {
	if err := j.giveBack(); err != nil && c.Result.Err == nil {
		c.Result.Err = err
	}
	close(j.done)
}

func (j *job) giveBack() error {
	if j.region == nil {
		return nil
	}
	return j.region.Close()
}
