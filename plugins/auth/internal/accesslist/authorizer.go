package accesslist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// Opener opens access lists.
type Opener struct {
	Log hclog.Logger
	// every is how often the file is looked at; 0 means every.
	every time.Duration
}

var settings = schema.Schema{{Key: "list", Required: true, Help: "the file of the access list"}}

// Describe implements schema.Describer.
func (Opener) Describe() schema.Description {
	return schema.Description{Name: "accesslist", Version: "1.0.0", Summary: "logins by an access list in a file", Settings: settings}
}

// Open reads the list. A list that cannot be read, or has an error, is an error.
func (o Opener) Open(_ context.Context, config map[string]string) (auth.Authorizer, error) {
	v, err := settings.Read(config)
	if err != nil {
		return nil, wrong(err)
	}
	if v.Text("list") == "" {
		return nil, wrong(errors.New("list: is empty; name a file"))
	}
	a := newAuthorizer(o.Log, v.Text("list"))
	if err := a.load(); err != nil {
		return nil, wrong(err)
	}
	signal.Notify(a.hup, syscall.SIGHUP)
	a.loop.Go(func() { a.run(cmp.Or(o.every, every)) })
	return a, nil
}

func newAuthorizer(log hclog.Logger, path string) *authorizer {
	return &authorizer{log: log, follow: follower{path: path}, quit: make(chan struct{}), known: newKnown(), hup: make(chan os.Signal, 1)}
}

func wrong(err error) error { return &auth.Error{Code: auth.CodeConfig, Err: err} }

// authorizer decides by the list in force.
type authorizer struct {
	log    hclog.Logger
	follow follower // run's
	text   []byte   // of the list in force; run's
	hup    chan os.Signal
	quit   chan struct{}
	loop   sync.WaitGroup

	mu     sync.Mutex
	list   *list
	known  *known
	notify func(auth.Change)
}

// Decide decides by the list, and remembers whom it let in, to tell of it when that ends.
func (a *authorizer) Decide(_ context.Context, l auth.Login) (auth.Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.list.decide(&l)
	if d.Allow {
		a.known.add(l)
	}
	return d, nil
}

// Watch gives the function to call when another list is in force.
func (a *authorizer) Watch(notify func(auth.Change)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notify = notify
}

// Notice tells which list is in force.
func (a *authorizer) Notice() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return "access list: " + a.list.String()
}

// Close ends the watching of the file.
func (a *authorizer) Close() error {
	signal.Stop(a.hup)
	close(a.quit)
	a.loop.Wait()
	return nil
}

func (a *authorizer) run(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-a.quit:
			return
		case <-a.hup:
			a.reload()
		case <-t.C:
			a.look()
		}
	}
}

// look reloads the file if it has changed.
func (a *authorizer) look() {
	if a.follow.look() {
		a.reload()
	}
}

// reload puts the file's list in force. One with an error changes nothing, and is not read again until it changes.
func (a *authorizer) reload() {
	err := a.load()
	if errors.Is(err, errMoving) {
		return // it is looked at again
	}
	if err != nil {
		a.log.Error("the access list cannot be used, the one before stays in force", "file", a.follow.path, "error", err)
	}
}

// load reads the file and puts its list in force, if it is another than the one before.
func (a *authorizer) load() error {
	is := stampOf(a.follow.path)
	text, err := read(a.follow.path)
	if errors.Is(err, errMoving) {
		return err
	}
	a.follow.read = is
	if err != nil {
		return err
	}
	if a.list != nil && bytes.Equal(text, a.text) {
		return nil
	}
	l, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.follow.path, err)
	}
	a.text = text
	a.adopt(l)
	return nil
}

// adopt puts a list in force and tells of it: of initiators that may not log in any more one by one, then of all others.
func (a *authorizer) adopt(l *list) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = l
	a.log.Info("access list in force", "file", a.follow.path, "list", l.String())
	if a.notify == nil {
		return
	}
	if gone := a.known.refused(l); len(gone) > 0 {
		a.notify(auth.Change{Initiators: gone, Revoke: true, Reason: "it is not on the access list any more"})
	}
	a.notify(auth.Change{Reason: "another access list is in force: " + l.String()})
}
