package discover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/mad/sa"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Config says whom to ask, and how patiently. Zero values take the defaults.
type Config struct {
	// Port is registered for the responses of the class (mad.ClassVersion, no methods). It stays the caller's; nobody else
	// may receive from it meanwhile.
	Port rdma.MADPort
	// To is the agent's address, complete for the port's kind of link.
	To rdma.MADAddr
	// Timeout is how long an answer may take before the query is sent again; 1 s.
	Timeout time.Duration
	// Tries is how often a query is sent at the most; 5.
	Tries int
	// Limit bounds the discovery as a whole; 1 min.
	Limit time.Duration
	// Trace, if not nil, is told of every step, from the goroutine that called Ask.
	Trace func(Step)
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	if c.Tries <= 0 {
		c.Tries = 5
	}
	if c.Limit <= 0 {
		c.Limit = time.Minute
	}
	return c
}

// bound ends ctx at the limit.
func (c Config) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("%w, %v", ErrLimit, c.Limit))
}

// Stats counts what a discovery took.
type Stats struct {
	// Queries were asked, by Sent datagrams: more if some were lost.
	Queries, Sent int
	// Strange datagrams were no answer to the open query. Busy answers asked for patience.
	Strange, Busy int
}

// Ask asks for everything behind the agent's port. If it ends early, because ctx or Limit does or the port fails, what was
// found until then is returned with the error, an *Error. Controllers that could not be read have their own in mad.Found.
func Ask(ctx context.Context, cfg Config) (mad.Unit, Stats, error) {
	cfg = cfg.withDefaults()
	ctx, cancel := cfg.bound(ctx)
	defer cancel()
	a := newAsker(cfg)
	var d mad.Discovery
	for q, more := d.Next(); more; q, more = d.Next() {
		data, err := a.exchange(ctx, q)
		if err != nil && !isAnswer(err) {
			unit, _ := d.Result() // there is none yet, or it has no error
			return unit, a.stats, err
		}
		d.Answer(data, err)
	}
	unit, err := d.Result()
	return unit, a.stats, err
}

// isAnswer tells whether the agent is the reason that there are no data: it refuses the query, or says nothing.
func isAnswer(err error) bool {
	_, refused := refusal(err)
	return refused || errors.Is(err, ErrSilent)
}

// refusal returns the status with which a query was refused.
func refusal(err error) (ib.Status, bool) {
	var dm *mad.StatusError
	var path *sa.StatusError
	switch {
	case errors.As(err, &dm):
		return dm.Status, true
	case errors.As(err, &path):
		return path.Status, true
	}
	return 0, false
}

// asker is one discovery.
type asker struct {
	cfg   Config
	stats Stats
	query Query // the open one
	tid   uint32
	try   int
	begin time.Time // of the try
	in    []byte
	out   []byte
}

func newAsker(cfg Config) *asker {
	return &asker{cfg: cfg, in: make([]byte, rdma.MADBufferSize), out: make([]byte, 0, ib.MADSize)}
}

// exchange sends a query until it is answered, and returns the attribute's data, which are valid until the next one.
func (a *asker) exchange(ctx context.Context, q Query) ([]byte, error) {
	a.query, a.tid = q, rand.Uint32()
	a.stats.Queries++
	var busy error
	for a.try = 1; a.try <= a.cfg.Tries; a.try++ {
		if ctx.Err() != nil {
			return nil, a.fail(context.Cause(ctx))
		}
		a.begin = time.Now()
		if err := a.cfg.Port.Send(a.cfg.To, q.Append(a.out, a.tid)); err != nil {
			return nil, a.fail(err)
		}
		a.stats.Sent++
		a.trace(Sent, nil)
		data, err := a.await(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, a.fail(context.Cause(ctx))
		case errors.Is(err, context.DeadlineExceeded):
			busy = nil
		case isBusy(err):
			busy = err
		default:
			return data, err
		}
	}
	if busy != nil {
		return nil, busy
	}
	err := a.fail(fmt.Errorf("%w to %d tries of %v each", ErrSilent, a.cfg.Tries, a.cfg.Timeout))
	a.trace(GivenUp, err)
	return nil, err
}

// await waits for the answer to the try that has been sent, up to the timeout. An agent that says that it is busy is left
// alone for that long.
func (a *asker) await(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	for {
		n, from, err := a.cfg.Port.Receive(ctx, a.in)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, a.fail(err)
		}
		data, err := a.read(a.in[:n], from)
		switch {
		case errors.Is(err, mad.ErrMismatch):
			a.stats.Strange++
			a.trace(Strange, err)
			if ctx.Err() != nil { // a flood does not buy time
				return nil, ctx.Err()
			}
		case isBusy(err):
			a.stats.Busy++
			a.trace(Answered, err)
			<-ctx.Done()
			return nil, err
		default:
			a.trace(Answered, err)
			return data, err
		}
	}
}

func (a *asker) read(b []byte, from rdma.MADAddr) ([]byte, error) {
	if !isPeer(&a.cfg.To, &from) {
		return nil, fmt.Errorf("%w: it comes from %s", mad.ErrMismatch, where(&from))
	}
	return a.query.Parse(b, a.tid)
}

// isBusy tells whether the agent asks to be asked again.
func isBusy(err error) bool {
	status, refused := refusal(err)
	return refused && status == ib.StatusBusy
}

// isPeer tells whether a datagram comes from where the query went.
func isPeer(to, from *rdma.MADAddr) bool {
	if from.QPN != to.QPN {
		return false
	}
	if to.HasGRH && from.HasGRH {
		return to.GRH.GID == from.GRH.GID
	}
	return to.LID != 0 && to.LID == from.LID
}

// where is an address for the operator, who knows GIDs of IPv4 by their address.
func where(a *rdma.MADAddr) string {
	s := fmt.Sprintf("LID %d", a.LID)
	if ip, v4 := a.GRH.GID.IPv4(); a.HasGRH && v4 {
		s = fmt.Sprintf("%d.%d.%d.%d", ip[0], ip[1], ip[2], ip[3])
	} else if a.HasGRH {
		s = "GID " + a.GRH.GID.String()
	}
	if a.QPN != ib.QPGeneralServices {
		s += fmt.Sprintf(" queue pair %d", a.QPN)
	}
	return s
}

func (a *asker) fail(err error) error { return &Error{Query: a.query, To: where(&a.cfg.To), Err: err} }
