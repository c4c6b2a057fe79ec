package ioctx_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

func good() ioctx.Plan {
	return ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276, MaxResponseIU: 512,
		MaxImmediateOffset: 512, MaxTransfer: 16 << 20, ArenaSize: 64 << 20, MaxWait: 10 * time.Second}
}

func TestNumberOutOfItsRangeIsNamed(t *testing.T) {
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, changes := range map[string][]func(*ioctx.Plan){
		"credits":     {func(p *ioctx.Plan) { p.Credits = 1 }, func(p *ioctx.Plan) { p.Credits, p.Responses = 4097, 8192 }, func(p *ioctx.Plan) { p.Credits = -1 }},
		"unsolicited": {func(p *ioctx.Plan) { p.Unsolicited = 0 }, func(p *ioctx.Plan) { p.Unsolicited = 65 }},
		"shared_receives": {func(p *ioctx.Plan) { p.SharedReceives = 15 }, func(p *ioctx.Plan) { p.SharedReceives = 65537 },
			func(p *ioctx.Plan) { p.SharedReceives = -1 }, func(p *ioctx.Plan) { p.Unsolicited, p.SharedReceives = 20, 21 }},
		"responses":            {func(p *ioctx.Plan) { p.Responses = 127 }, func(p *ioctx.Plan) { p.Responses = 8193 }},
		"send_work":            {func(p *ioctx.Plan) { p.SendWork = 15 }, func(p *ioctx.Plan) { p.SendWork = 32769 }, func(p *ioctx.Plan) { p.SendWork = -1 << 62 }},
		"max_request_iu":       {func(p *ioctx.Plan) { p.MaxRequestIU = 63 }, func(p *ioctx.Plan) { p.MaxRequestIU = 1<<20 + 1 }},
		"max_response_iu":      {func(p *ioctx.Plan) { p.MaxResponseIU = 63 }, func(p *ioctx.Plan) { p.MaxResponseIU = 4097 }},
		"max_immediate_offset": {func(p *ioctx.Plan) { p.MaxImmediateOffset = 4097 }},
		"max_transfer":         {func(p *ioctx.Plan) { p.MaxTransfer = 4095 }, func(p *ioctx.Plan) { p.MaxTransfer = 16<<20 + 1 }},
		"arena_size": {func(p *ioctx.Plan) { p.ArenaSize = 16<<20 - 1 }, func(p *ioctx.Plan) { p.ArenaSize = 1<<40 + 4096 },
			func(p *ioctx.Plan) { p.ArenaSize++ }},
		"max_wait": {func(p *ioctx.Plan) { p.MaxWait = 0 }, func(p *ioctx.Plan) { p.MaxWait = time.Minute + 1 }, func(p *ioctx.Plan) { p.MaxWait = -1 }},
	} {
		for i, change := range changes {
			p := good()
			change(&p)
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "ioctx: "+name+" is ") {
				t.Errorf("%s %d: %v", name, i, err)
			}
		}
	}
	err := ioctx.Plan{}.Validate()
	for _, name := range []string{"credits", "unsolicited", "send_work", "max_request_iu", "max_response_iu", "max_transfer", "max_wait"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the zero plan: %v does not name %s", err, name)
		}
	}
}

func TestCodeOfIsTheFirstErrorsOfTheChain(t *testing.T) {
	down := &ioctx.Error{Code: ioctx.CodeUnavailable, Err: io.ErrUnexpectedEOF}
	for _, c := range []struct {
		err  error
		want ioctx.Code
	}{
		{nil, ioctx.CodeOK}, {io.EOF, ioctx.CodeInternal}, {down, ioctx.CodeUnavailable}, {fmt.Errorf("asking: %w", down), ioctx.CodeUnavailable},
		{&ioctx.Error{Code: ioctx.CodeConfig, Err: down}, ioctx.CodeConfig},
	} {
		if got := ioctx.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(down, io.ErrUnexpectedEOF) || down.Error() != "ioctx: unavailable: unexpected EOF" {
		t.Errorf("%v", down)
	}
	if got := (&ioctx.Error{Code: ioctx.CodeConfig}).Error(); got != "ioctx: wrong configuration" {
		t.Errorf("%q", got)
	}
}

func TestEveryCodeHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for c := ioctx.CodeOK; c <= ioctx.CodeInvalid+2; c++ {
		if s := c.String(); s == "" || seen[s] {
			t.Errorf("code %d is named %q", uint16(c), s)
		} else {
			seen[s] = true
		}
	}
}
