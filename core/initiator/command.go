package initiator

import (
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Format chooses how a command describes its data buffers.
type Format uint8

const (
	// FormatAuto takes immediate data where it was granted and fits, else direct for one piece
	// of memory and indirect for several, as ib_srp does.
	FormatAuto Format = iota
	// FormatDirect is one descriptor for one piece of memory.
	FormatDirect
	// FormatIndirect is a table for any number of pieces: up to Config.ListEntries in the unit, the rest in memory
	// as far as Config.TableEntries permits.
	FormatIndirect
	// FormatImmediate puts the data to be written into the unit.
	FormatImmediate
)

// Command is a SCSI command. It, and the memory it names, belongs to the session from Submit until
// Done is called; after that it can be submitted again.
type Command struct {
	LUN  srp.LUN
	Attr srp.TaskAttr
	// CDB is padded with zeros.
	CDB [16]byte
	// Out is the memory that the target reads, In what it writes. Their regions need
	// rdma.RemoteRead and rdma.RemoteWrite respectively.
	Out, In []rdma.SGE
	Format  Format
	// Channel is 1 for the first channel and so on; 0 takes the one with the least to do.
	Channel int
	// Done is called when Result is there, in the session's goroutine. It must not block. It may
	// submit commands, this one as well.
	Done func(*Command)
	// Result is valid in and after Done.
	Result Result

	inUse atomic.Bool
	// The rest is the session goroutine's: where the command is.
	ch   *channel
	slot *slot
}

// Result is how a command ended.
type Result struct {
	// Err tells why there is no SCSI status. It is nil if the target has answered.
	Err error
	// Status is the SCSI status.
	Status byte
	// Out and In are the residuals of the data buffers.
	Out, In srp.Residual

	sense    [srp.MaxSense]byte
	senseLen int
}

// Sense is the sense data, a view of the result.
func (r *Result) Sense() []byte { return r.sense[:r.senseLen] }

// Check makes an error of whatever is not status GOOD: Err or a StatusError.
func (r *Result) Check() error {
	if r.Err != nil {
		return r.Err
	}
	if r.Status == 0 {
		return nil
	}
	return &StatusError{Status: r.Status, Sense: append([]byte(nil), r.Sense()...)}
}

// take reads the result off a response. The target's sense data is cut to what fits.
func (r *Result) take(rsp srp.Rsp) {
	r.Err, r.Status, r.Out, r.In = nil, rsp.Status(), rsp.Out(), rsp.In()
	r.senseLen = copy(r.sense[:], rsp.Sense())
}

// finish gives the command back to its user.
func (c *Command) finish() {
	c.ch, c.slot = nil, nil
	done := c.Done
	c.inUse.Store(false)
	if done != nil {
		done(c)
	}
}

// fail ends the command without a status.
func (c *Command) fail(err error) {
	c.Result.Err, c.Result.Status, c.Result.Out, c.Result.In = err, 0, 0, 0
	c.Result.senseLen = 0
	c.finish()
}

// senseOf reads sense key and codes of fixed and descriptor sense data (SPC-4 4.5).
func senseOf(b []byte) (key, asc, ascq byte, ok bool) {
	if len(b) == 0 {
		return 0, 0, 0, false
	}
	switch b[0] & 0x7F {
	case 0x70, 0x71:
		if len(b) >= 14 {
			return b[2] & 0x0F, b[12], b[13], true
		}
	case 0x72, 0x73:
		if len(b) >= 4 {
			return b[1] & 0x0F, b[2], b[3], true
		}
	}
	return 0, 0, 0, false
}
