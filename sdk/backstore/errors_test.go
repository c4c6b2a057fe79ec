package backstore_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func TestCodeOfIsTheFirstErrorsOfTheChain(t *testing.T) {
	busy := &backstore.Error{Code: backstore.CodeBusy, Err: io.ErrUnexpectedEOF}
	for _, c := range []struct {
		err  error
		want backstore.Code
	}{
		{nil, backstore.CodeOK},
		{io.EOF, backstore.CodeIO},
		{busy, backstore.CodeBusy},
		{fmt.Errorf("opening: %w", busy), backstore.CodeBusy},
		{&backstore.Error{Code: backstore.CodeNoSpace, Err: busy}, backstore.CodeNoSpace},
		{errors.Join(io.EOF, busy), backstore.CodeBusy},
	} {
		if got := backstore.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(busy, io.ErrUnexpectedEOF) {
		t.Error("the cause is hidden")
	}
}

func TestErrorsTellTheCodeAndTheCause(t *testing.T) {
	e := &backstore.Error{Code: backstore.CodeNoSpace}
	if got := e.Error(); got != "backstore: no space" {
		t.Errorf("%q", got)
	}
	e.Err = io.EOF
	if got := e.Error(); got != "backstore: no space: EOF" {
		t.Errorf("%q", got)
	}
}

func TestEveryCodeHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for c := backstore.CodeOK; c <= backstore.MaxCode+2; c++ {
		if s := c.String(); s == "" || seen[s] {
			t.Errorf("code %d is named %q", uint16(c), s)
		} else {
			seen[s] = true
		}
	}
}
