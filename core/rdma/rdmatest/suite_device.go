package rdmatest

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var deviceChecks = []check{
	{"ProviderListsTheDevice", providerListsTheDevice},
	{"AttrIsUsable", attrIsUsable},
	{"PortHasTheAddress", portHasTheAddress},
	{"StatsAreNamedInSnakeCase", statsAreNamed},
	{"RegionIsTheMemory", regionIsTheMemory},
	{"RemoteKeysDiffer", remoteKeysDiffer},
	{"ServiceIsTakenOnce", serviceIsTakenOnce},
	{"ServiceIsFreeAfterClose", serviceIsFreeAfterClose},
	{"QueuePairNumbersDiffer", queuePairNumbersDiffer},
}

func providerListsTheDevice(r *rig) {
	list, err := r.Provider.Devices(r.context())
	r.must(err)
	for _, d := range list {
		if d.Name() == r.A.Name() {
			return
		}
	}
	r.Errorf("%s does not list %s", r.Provider.Name(), r.A.Name())
}

func attrIsUsable(r *rig) {
	for _, d := range []rdma.Device{r.A, r.B} {
		a := d.Attr()
		if a.NodeGUID == 0 || a.MaxSGE < 1 || a.MaxQPWork < 64 || a.MaxReads < 1 || a.MaxMessage < uint32(r.MaxMessage) {
			r.Errorf("%s: %+v", d.Name(), a)
		}
		if d.Attr() != a {
			r.Errorf("%s: attributes change", d.Name())
		}
	}
}

func portHasTheAddress(r *rig) {
	ports, err := r.A.Ports()
	r.must(err)
	for i, p := range ports {
		if p.Num != i+1 || p.MTU < 256 || p.MTU > 4096 || len(p.GIDs) == 0 {
			r.Errorf("port %+v", p)
		}
		for _, a := range p.Addrs {
			if a == r.AddrA && p.Active {
				return
			}
		}
	}
	r.Errorf("no active port has %v: %+v", r.AddrA, ports)
}

func statsAreNamed(r *rig) {
	a, b := r.pair()
	r.exchange(a, b)
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	stats := r.A.Stats()
	if len(stats) == 0 {
		r.Error("no statistics")
	}
	for name := range stats {
		if !snake.MatchString(name) {
			r.Errorf("statistic %q", name)
		}
	}
}

func regionIsTheMemory(r *rig) {
	mem := []byte("the memory of a region")
	region, err := r.A.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
	r.must(err)
	defer region.Close()
	if !bytes.Equal(region.Bytes(), mem) || &region.Bytes()[0] != &mem[0] {
		r.Error("Bytes is not what was registered")
	}
}

func remoteKeysDiffer(r *rig) {
	keys := make(map[uint32]bool)
	sequential := 0
	var last uint32
	for range 64 {
		region := r.memory(r.A, 64, rdma.RemoteRead)
		if keys[region.RKey()] {
			r.Fatalf("key %#x given twice", region.RKey())
		}
		keys[region.RKey()] = true
		if d := region.RKey() - last; d > 0 && d <= 256 {
			sequential++
		}
		last = region.RKey()
	}
	if sequential > 8 && !r.DeviceKeys {
		r.Errorf("%d of 64 keys follow from the one before", sequential)
	}
}

func serviceIsTakenOnce(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	if l.Service() != svc {
		r.Errorf("Service() = %v, want %v", l.Service(), svc)
	}
	if second, err := r.B.Listen(svc); !errors.Is(err, rdma.ErrInUse) {
		if err == nil {
			second.Close()
		}
		r.Errorf("second Listen: %v, want ErrInUse", err)
	}
}

func serviceIsFreeAfterClose(r *rig) {
	svc := r.service()
	r.must(r.listen(svc).Close())
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	r.joinAt(r.listen(svc), a, b)
}

func queuePairNumbersDiffer(r *rig) {
	nums := make(map[uint32]bool)
	for range 32 {
		n := r.la.NewEnd(config()).QP.Num()
		if n == 0 || n > 0xFFFFFF || nums[n] {
			r.Errorf("number %#x", n)
		}
		nums[n] = true
	}
}
