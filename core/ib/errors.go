package ib

import (
	"errors"
	"fmt"
)

// Sentinels that the package's errors wrap.
var (
	// ErrSyntax: a text is no valid form of the value.
	ErrSyntax = errors.New("invalid syntax")
	// ErrShort: bytes end before the structure does.
	ErrShort = errors.New("too short")
	// ErrRange: a number is outside the values that the architecture allows.
	ErrRange = errors.New("out of range")
)

func syntaxError(what, text string) error {
	const most = 64
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Errorf("%s %q: %w", what, text, ErrSyntax)
}
