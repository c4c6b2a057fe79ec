package main

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

func TestMemoryDoesNotGrowWithRefusedLogins(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	d := s.start(t)
	pid := d.cmd.Process.Pid
	session := dial(t, s, 0)
	l := newLoad(t, session, 0, 8)
	var peers []*peer
	for range 8 {
		peers = append(peers, newPeer(t, s))
	}
	refuse := func(rounds int) {
		const window = 32 // of one peer; what is beyond the daemon's bounds it drops
		for range rounds {
			for _, p := range peers {
				for range window {
					r := loginRequest()
					r.Target[0]++
					p.send(p.request(r.AppendRDMA(nil)))
				}
				for n := 0; n < window; {
					if m := p.receive(); m.Attr() == cm.AttrREJ {
						n++
					}
				}
			}
		}
	}
	refuse(8) // 2048: everything that is remembered is full
	before := residentMemory(t, pid)
	end := l.background(t)
	refuse(requests(4, 80))
	end()
	growth := residentMemory(t, pid) - before
	bound := int64(48 << 20)
	if raceDetector {
		bound *= 4
	}
	if growth > bound {
		t.Errorf("it has grown by %d MiB over %d logins", growth>>20, s.counter(t, "logins_refused"))
	}
	if n, want := s.counter(t, "logins_refused"), uint64(256*(8+requests(4, 80))); n != want {
		t.Errorf("%d logins refused, want %d", n, want)
	}
}

func TestHalfOpenLoginsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	p := newPeer(t, s)
	const many = 200
	for range many {
		r := loginRequest()
		p.send(p.request(r.AppendRDMA(nil)))
	}
	// A burst may have its turn with the admission first, which examines a bounded number of logins at a time.
	eventually(t, "every request is accepted, refused, or dropped for the bound of one peer", func() bool {
		return s.counter(t, "logins_accepted")+s.counter(t, "logins_refused")+s.counter(t, "cm_overflow") == many
	})
	if n := s.counter(t, "cm_overflow"); n == 0 {
		t.Error("nothing was dropped for the bound of one peer")
	}
	l := newLoad(t, dial(t, s, 0), 0, 8)
	if err := l.run(nil, 50); err != nil {
		t.Error(err)
	}
}
