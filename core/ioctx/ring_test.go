package ioctx

import (
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
)

func TestRingBuffersAreApart(t *testing.T) {
	leaktest.Check(t)
	dev := &device{}
	r, err := NewRing(dev, 5, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Depth() {
		b := r.Buffer(i)
		if len(b) != 100 || cap(b) != 100 {
			t.Fatalf("buffer %d: %d of %d", i, len(b), cap(b))
		}
		for j := range b {
			b[j] = byte(i + 1)
		}
	}
	for i := range r.Depth() {
		for _, c := range r.Buffer(i) {
			if c != byte(i+1) {
				t.Fatalf("buffer %d was overwritten", i)
			}
		}
		sge := r.SGE(i, 40)
		if sge.Len != 40 || &sge.Region.Bytes()[sge.Off] != &r.Buffer(i)[0] || r.Full(i).Len != 100 || r.SGE(i, 1000).Len != 100 {
			t.Fatalf("SGE of %d: %+v", i, sge)
		}
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || dev.open != 0 {
		t.Fatal(err, dev.open)
	}
}

func TestRingThatCannotBeMadeLeavesNothing(t *testing.T) {
	leaktest.Check(t)
	broken := errors.New("no")
	dev := &device{err: broken}
	if _, err := NewRing(dev, 1, 1); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	for _, depth := range []int{-1, 0} {
		if _, err := NewRing(dev, depth, 1); !errors.Is(err, ErrSize) {
			t.Fatal(err)
		}
	}
	if _, err := Map(MaxArena + 1); !errors.Is(err, ErrSize) {
		t.Fatal(err)
	}
}

func TestDefaultPlanIsValid(t *testing.T) {
	p := DefaultPlan()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if p.MaxRequestIU < 8260 {
		t.Fatalf("a Linux initiator asks for 8260 bytes, the plan has %d", p.MaxRequestIU)
	}
	if n := p.ChannelBytes(); n < 132*8276 || n > 2<<20 {
		t.Fatalf("a channel takes %d bytes", n)
	}
}

func TestPlanNamesEveryBadField(t *testing.T) {
	bad := []func(*Plan){
		func(p *Plan) { p.Credits = 1 }, func(p *Plan) { p.Unsolicited = 0 }, func(p *Plan) { p.Responses = 1 },
		func(p *Plan) { p.SendWork = 1 }, func(p *Plan) { p.MaxRequestIU = 63 }, func(p *Plan) { p.MaxResponseIU = 10 },
		func(p *Plan) { p.MaxImmediateOffset = 5000 }, func(p *Plan) { p.MaxTransfer = 1 }, func(p *Plan) { p.ArenaSize = 4096 },
		func(p *Plan) { p.MaxWait = 0 },
	}
	var all Plan
	for i, change := range bad {
		p := DefaultPlan()
		change(&p)
		if err := p.Validate(); !errors.Is(err, ErrPlan) {
			t.Errorf("change %d: %v", i, err)
		}
		change(&all)
	}
	err := all.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatal(err)
	}
	list := joined.Unwrap()[1].(interface{ Unwrap() []error }).Unwrap()
	if len(list) != len(bad)-2 { // one response is enough for one credit, a small arena for small transfers
		t.Fatalf("%d problems named: %v", len(list), err)
	}
}
