package authtest

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

var checks = []check{
	{"an unknown key is refused by name", checkUnknownKey},
	{"an open that is cancelled does not hang", checkCancelledOpen},
	{"who is permitted is allowed in", checkAllowed},
	{"who is not permitted is told apart and the operator why", checkDenied},
	{"the same question has the same answer", checkRepeated},
	{"an answer belongs to who asked", checkAliasing},
	{"questions asked at once keep apart", checkConcurrent},
	{"any login has an answer that is in order", checkStrange},
	{"a question that is cancelled does not hang", checkCancelledDecide},
	{"a revocation is told and in force", checkRevoke},
	{"the notice is one line", checkNotice},
}

func checkUnknownKey(r *run) {
	const key = "no-such-key-of-any-authoriser"
	config := maps.Clone(r.config)
	if config == nil {
		config = map[string]string{}
	}
	config[key] = "1"
	a, err := r.Opener.Open(r.ctx, config)
	if err == nil {
		a.Close()
		r.Fatal("Open took a key that cannot be in the documentation")
	}
	if !strings.Contains(err.Error(), key) {
		r.Errorf("the error does not name the key: %v", err)
	}
}

func checkCancelledOpen(r *run) {
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.within("Open with a cancelled context", func() {
		if a, err := r.Opener.Open(ctx, r.config); err == nil {
			a.Close()
		}
	})
}

func checkAllowed(r *run) {
	r.open()
	if d := r.decide(r.Allowed); !d.Allow {
		r.Errorf("%v is refused: %s", r.Allowed.Names(), d.Reason)
	}
}

func checkDenied(r *run) {
	if r.Denied == nil {
		r.Skip("the subject refuses nobody")
	}
	r.open()
	d := r.decide(*r.Denied)
	if d.Allow {
		r.Errorf("%v is allowed in", r.Denied.Names())
	}
	if d.Reason == "" {
		r.Error("the refusal has no reason")
	}
}

func checkRepeated(r *run) {
	r.open()
	first := r.decide(r.Allowed)
	for range 5 {
		if again := r.decide(r.Allowed); !reflect.DeepEqual(again, first) {
			r.Fatalf("%+v, and then %+v", first, again)
		}
	}
}

func checkAliasing(r *run) {
	r.open()
	d := r.decide(r.Allowed)
	want := d
	want.LUNs = slices.Clone(d.LUNs)
	for i := range d.LUNs {
		d.LUNs[i] = auth.LUN{LUN: auth.MaxLUN, Name: "overwritten"}
	}
	if got := r.decide(r.Allowed); !reflect.DeepEqual(got, want) {
		r.Errorf("%+v, and after the first answer was overwritten %+v", want, got)
	}
}

func checkConcurrent(r *run) {
	r.open()
	logins := []auth.Login{r.Allowed}
	if r.Denied != nil {
		logins = append(logins, *r.Denied)
	}
	var want []auth.Decision
	for _, l := range logins {
		want = append(want, r.decide(l))
	}
	var wg sync.WaitGroup
	for n := range 32 {
		wg.Go(func() {
			for i := range 20 {
				k := (n + i) % len(logins)
				d, err := r.auth.Decide(r.ctx, logins[k])
				if err != nil || !reflect.DeepEqual(d, want[k]) {
					r.Errorf("%v: %+v, %v; alone %+v", logins[k].Names(), d, err, want[k])
					return
				}
			}
		})
	}
	wg.Wait()
}

// checkStrange asks about logins that nobody has thought of. They may be refused or allowed, but not fail.
func checkStrange(r *run) {
	r.open()
	rnd := rand.New(rand.NewPCG(1, 2))
	logins := []auth.Login{{}, {Device: strings.Repeat("d", 4096), Port: -1, PKey: 0xffff, Action: 255}}
	for range 50 {
		l := auth.Login{Device: "x", Port: 1, PKey: uint16(rnd.Uint32()), Action: auth.Action(rnd.Uint32N(2))}
		for i := range l.Initiator {
			l.Initiator[i], l.Target[i], l.SourceGID[i] = byte(rnd.Uint32()), byte(rnd.Uint32()), byte(rnd.Uint32())
		}
		l.SourceAddr = netip.AddrFrom16(l.SourceGID)
		logins = append(logins, l)
	}
	for _, l := range logins {
		if d := r.decide(l); !d.Allow && d.Reason == "" {
			r.Errorf("%v is refused without a reason", l.Names())
		}
	}
}

func checkCancelledDecide(r *run) {
	r.open()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.within("Decide with a cancelled context", func() {
		if d, err := r.auth.Decide(ctx, r.Allowed); err == nil && d.Validate() != nil {
			r.Errorf("%v", d.Validate())
		}
	})
}

func checkRevoke(r *run) {
	if r.Revoke == nil {
		r.Skip("the subject cannot revoke")
	}
	r.open()
	w, ok := r.auth.(auth.Watcher)
	if !ok {
		r.Skip("the authoriser is no Watcher")
	}
	changes := make(chan auth.Change, 64)
	w.Watch(func(c auth.Change) { changes <- c })
	if !r.decide(r.Allowed).Allow {
		r.Fatal("refused before the revocation")
	}
	r.Revoke(r, r.config)
	for {
		select {
		case c := <-changes:
			if err := c.Validate(); err != nil {
				r.Fatal(err)
			}
			if !concerns(c, r.Allowed.Initiator) {
				continue
			}
			if d := r.decide(r.Allowed); d.Allow || d.Reason == "" {
				r.Errorf("after the revocation was told: %+v", d)
			}
			return
		case <-r.ctx.Done():
			r.Fatal("the revocation was not told")
		}
	}
}

func concerns(c auth.Change, id auth.ID) bool {
	for _, i := range c.Initiators {
		if i == id {
			return true
		}
	}
	return len(c.Initiators) == 0
}

func checkNotice(r *run) {
	r.open()
	n, ok := r.auth.(auth.Noticer)
	if !ok {
		r.Skip("the authoriser is no Noticer")
	}
	if s := n.Notice(); strings.ContainsAny(s, "\r\n") {
		r.Errorf("%q", s)
	}
}
