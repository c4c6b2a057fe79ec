package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// errReceives: the shared receives are promised.
var errReceives = errors.New("no shared receives are left for one more channel")

// keptReceives is the part of the shared receives that only first channels may use, and shareOfRest the most of what is left that one
// channel may have when there is not much: so that a host that comes late still works, with fewer credits.
const (
	keptReceives = 4
	shareOfRest  = 8
)

// pools are the shared receives of the devices, by what the plan in force says. A device that has none has a nil pool.
type pools struct {
	mu sync.Mutex
	of map[rdma.Device]*sharedPool
}

type sharedPool struct {
	*conn.ReceivePool
	plan poolPlan
}

// usable tells that channels under a plan receive from the pool, or have receives of their own as it has none.
func (p *sharedPool) usable(plan poolPlan) bool {
	return p != nil && p.plan == plan && (p.ReceivePool == nil || !p.Broken())
}

// poolPlan is what a pool is made by.
type poolPlan struct {
	depth int
	size  uint32
}

func poolPlanOf(p *ioctx.Plan) poolPlan {
	if p.SharedReceives == 0 {
		return poolPlan{}
	}
	return poolPlan{p.SharedReceives, p.MaxRequestIU}
}

// receivePool is the pool that a channel on a device receives from under a plan; nil if it has receives of its own. It makes the pool, once,
// and retires the one of another plan, or one that the device has given up. If that fails the channels of the device have receives of their
// own, as long as the plan is in force.
func (t *Target) receivePool(ctx context.Context, dev rdma.Device, plan *ioctx.Plan) (*conn.ReceivePool, error) {
	want := poolPlanOf(plan)
	t.pools.mu.Lock()
	defer t.pools.mu.Unlock()
	have := t.pools.of[dev]
	if have.usable(want) {
		return have.ReceivePool, nil
	}
	if have == nil && want.depth == 0 {
		return nil, nil
	}
	if !slices.Contains(t.deviceList(), dev) {
		return nil, fmt.Errorf("device %s: %w", dev.Name(), conn.ErrDevice)
	}
	made := &sharedPool{plan: want}
	if have != nil && have.plan == want {
		t.log.Warn("the device has given up the shared receives: it gets others", "device", dev.Name(), "shared_receives", want.depth)
		delete(t.pools.of, dev)
		if err := t.retire(ctx, have); err != nil {
			return nil, err
		}
		have = nil
	}
	if want.depth > 0 {
		var err error
		if made.ReceivePool, err = conn.OpenReceivePool(ctx, t.reactor, dev, want.depth, want.size); err != nil {
			if ctx.Err() != nil || errors.Is(err, conn.ErrStopped) {
				return nil, err
			}
			t.log.Warn("receives are not shared: each channel of the device has its own", "device", dev.Name(), "shared_receives", want.depth, "error", err)
		}
	}
	if t.pools.of == nil {
		t.pools.of = make(map[rdma.Device]*sharedPool)
	}
	t.pools.of[dev] = made
	return made.ReceivePool, t.retire(context.WithoutCancel(ctx), have) // or nobody would
}

// retire lets a pool end with its last channel.
func (t *Target) retire(ctx context.Context, p *sharedPool) error {
	if p == nil || p.ReceivePool == nil {
		return nil
	}
	return t.reactor.Call(ctx, p.Retire)
}

// forgetPool forgets the pool of a device that is gone.
func (t *Target) forgetPool(ctx context.Context, dev rdma.Device) error {
	t.pools.mu.Lock()
	p := t.pools.of[dev]
	delete(t.pools.of, dev)
	t.pools.mu.Unlock()
	return t.retire(ctx, p)
}

// share is how many credits a channel gets of a pool, 0 if there is no room for it, and how many receives it is promised for them. leaving
// is how many receives the channels have that it replaces: they make its part larger, so that a host that comes back gets what it had as
// long as there is room, but are not there yet.
func share(free, leaving, depth, credits, unsolicited int, first bool) (granted, receives int) {
	if !first {
		free -= depth / keptReceives
	}
	least := ioctx.LeastCredits + unsolicited
	if free < least {
		return 0, 0
	}
	receives = min(credits+unsolicited, max(least, (free+leaving)/shareOfRest), free)
	return receives - unsolicited, receives
}

// reserveReceives finds out how many credits the channel gets of the pool.
func (a *admission) reserveReceives(credits int32, first bool, leaving []*link) (int32, refusal) {
	p := &a.planned.plan
	theirs := 0
	for _, l := range leaving {
		if l.pool == a.pool {
			theirs += l.share
		}
	}
	granted, n := share(a.pool.Free(), theirs, a.pool.Depth(), int(credits), p.Unsolicited, first)
	if granted > 0 {
		a.share = n
		a.pool.Promise(n)
		return int32(granted), refusal{}
	}
	reason := srp.RejChannelLimit
	if first {
		reason = srp.RejResources
	}
	return 0, refusal{reason, fmt.Errorf("%w: %d of %d are left; %s", errReceives, a.pool.Free(), a.pool.Depth(), a.t.holders())}
}

// returnShare undoes reserveReceives; the end of a channel does it otherwise.
func (a *admission) returnShare() {
	if a.pool != nil {
		a.pool.Return(a.share)
	}
}

// ReceiveUse is how much of the shared receives of a device is in use.
type ReceiveUse struct {
	Device string
	conn.PoolStats
}

// receiveUse lists the pools. It runs in the reactor's goroutine.
func receiveUse(list []*conn.ReceivePool) []ReceiveUse {
	var out []ReceiveUse
	for _, p := range list {
		out = append(out, ReceiveUse{p.Device().Name(), p.Stats()})
	}
	slices.SortFunc(out, func(a, b ReceiveUse) int { return cmp.Compare(a.Device, b.Device) })
	return out
}

// openPools lists the pools that serve later logins.
func (t *Target) openPools() []*conn.ReceivePool {
	t.pools.mu.Lock()
	defer t.pools.mu.Unlock()
	var list []*conn.ReceivePool
	for _, p := range t.pools.of {
		if p.ReceivePool != nil {
			list = append(list, p.ReceivePool)
		}
	}
	return list
}
