package plugintest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// Options say what to check and how.
type Options struct {
	// Path is the executable, Args its arguments, Env its whole environment.
	Path      string
	Args, Env []string
	// Config is what it opens: a store of at least 1 MiB, writable; an authoriser that permits Allowed and refuses Denied; a planner.
	Config map[string]string
	// ReadOnly are the keys to add to Config to open the same store for reading only. Nil: read_only=true, if the plugin declares
	// such a setting.
	ReadOnly map[string]string
	// Volatile says that a store's content ends with its Close, or with the process.
	Volatile bool
	// Prepare is a shell command that is run before each check. In it {tmp} is as in Config.
	Prepare string
	// Change is a shell command that has Allowed refused, or changes the plan.
	Change string
	// Allowed is a login that the authoriser permits, Denied one that it refuses; Denied may be nil.
	Allowed auth.Login
	Denied  *auth.Login
	// Slow leaves the ring out.
	Slow bool
	// Match chooses checks by name; nil is all.
	Match *regexp.Regexp
	// Limit is how long a check may take; 0 means a minute.
	Limit time.Duration
	// Begin and Done, if set, are called before and after each check.
	Begin func(name string)
	Done  func(conformance.Result)
	// Log gets what the plugin logs and prints. Nil drops it.
	Log hclog.Logger
}

const defaultLimit = time.Minute

// StartError says that the plugin cannot be started, so that nothing can be checked.
type StartError struct{ Err error }

// Error tells why.
func (e *StartError) Error() string { return fmt.Sprintf("the plugin cannot be started: %v", e.Err) }

// Unwrap is the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Report is the outcome of all checks.
type Report struct {
	About   host.About
	Results []conformance.Result
	// Begun is the time of the first check.
	Begun time.Time
	Took  time.Duration
}

// Run runs the checks. An error means that there were none: a StartError, or a matter of the options.
func Run(ctx context.Context, o Options) (Report, error) {
	k, err := newKit(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer k.close()
	r := Report{About: k.about, Begun: time.Now()}
	run := conformance.Runner{Limit: k.o.Limit, Grace: 15 * time.Second, Abort: k.abort}
	for _, c := range k.checks() {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if k.o.Begin != nil {
			k.o.Begin(c.Name)
		}
		res := run.Run(ctx, c)
		r.Results = append(r.Results, res)
		if k.o.Done != nil {
			k.o.Done(res)
		}
	}
	r.Took = time.Since(r.Begun)
	return r, nil
}

// List names the checks that Run would run.
func List(ctx context.Context, o Options) ([]string, error) {
	k, err := newKit(ctx, o)
	if err != nil {
		return nil, err
	}
	defer k.close()
	var names []string
	for _, c := range k.checks() {
		names = append(names, c.Name)
	}
	return names, nil
}

// newKit starts the plugin once, to learn what it is.
func newKit(ctx context.Context, o Options) (*kit, error) {
	if o.Path == "" {
		return nil, errors.New("plugintest: no executable is named")
	}
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	about, err := host.Describe(ctx, o.control())
	if err != nil {
		return nil, &StartError{err}
	}
	return &kit{o: o, about: about}, nil
}

func (o *Options) control() host.ControlOptions {
	return host.ControlOptions{Path: o.Path, Args: o.Args, Env: o.Env, Log: o.Log}
}
