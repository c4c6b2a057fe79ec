package cm

import "errors"

// Sentinels that the package's errors wrap.
var (
	// ErrMessage: bytes are no communication management message of this version.
	ErrMessage = errors.New("no CM message")
	// ErrPrivate: private data, or additional reject information, is longer than the message has room for.
	ErrPrivate = errors.New("private data too long")
	// ErrUnknown: no connection has this handle, or not any more.
	ErrUnknown = errors.New("no such connection")
	// ErrState: the connection is in no state for the command.
	ErrState = errors.New("wrong connection state")
	// ErrInUse: the service is listened on, or the handle is taken.
	ErrInUse = errors.New("in use")
	// ErrInvalid: a parameter is outside what the message can carry.
	ErrInvalid = errors.New("invalid parameter")
)
