package conn

import "github.com/gosrpt/gosrpt/core/srp"

// Handler is what a channel asks of the SCSI side. The target implements it over its logical units.
// All calls but NewState come from the channel's reactor, none may block, and Handler may call the
// Command's methods before it returns.
type Handler interface {
	// NewState returns the per-command state that a Handler keeps in Command.User. It is called
	// once for each command slot when the channel is made, by the goroutine that makes it, so that
	// commands allocate nothing.
	NewState(c *Command) any
	// Start begins the command. The handler calls GetBuffer, Fetch, or Finish.
	Start(c *Command)
	// DataReady continues a command after GetBuffer or Fetch: c.Data() is there.
	DataReady(c *Command)
	// Abort asks to end the command early: it must still end with Finish, as soon as nothing
	// touches its buffer any more. What it then says is not sent.
	Abort(c *Command)
	// TaskManagement performs what is left to do of a function after the channel has dealt with
	// its own commands. It calls t.Finish, at once or later.
	TaskManagement(t *TaskManagement)
}

// Command is one SRP_CMD being executed. Its methods are called by the Handler in the reactor's goroutine.
type Command struct {
	// User is the handler's state.
	User any
	// IU is the command as received; valid until Finish.
	IU *srp.Cmd
	// OutLen and InLen are the sizes of the initiator's buffers in bytes.
	OutLen, InLen uint64

	cmdState // the engine's own, unexported
}

// Result is how a command ends.
type Result struct {
	// Status is the SCSI status (SAM-5 5.3.1).
	Status byte
	// Sense is the sense data; nil for none. It is copied.
	Sense []byte
	// OutUsed is how many bytes of data-out were consumed; InUsed how many bytes of Data go to the initiator.
	OutUsed, InUsed uint64
	// Wanted is the transfer length that the CDB asked for, in bytes; residuals compare it with the
	// initiator's buffer.
	Wanted uint64
}
