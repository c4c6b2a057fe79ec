package discover

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad/sa"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// The subnet of these tests: the port that asks is askerLID, the manager managerLID. The port that is looked for is not there.
const (
	askerLID   = 0x10
	managerLID = 0x20
	soughtLID  = 0x30
)

var soughtGID = ib.MakeGID(ib.LinkLocalPrefix, 0x30)

// asking is a port that is in order.
func asking() Subnet {
	return Subnet{SMSL: 3, Port: rdma.Port{Num: 1, State: ib.PortActive, Active: true, Link: ib.LinkInfiniBand, LID: askerLID, SMLID: managerLID,
		GIDs: []ib.GID{gid(askAddr)}, PKeys: []ib.PKey{0x8001, 0x7FFF, 0xFFFF}}}
}

// administer calls f in a bubble in which an administrator answers each query as bend changes the record. It may be nil.
func administer(t *testing.T, bend func(m ib.MAD, r []byte), f func(t *testing.T, cfg Config)) {
	synctest.Test(t, func(t *testing.T) {
		device := func(name, addr string, lid ib.LID) rdmatest.DeviceConfig {
			return rdmatest.DeviceConfig{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, LID: lid, PKeys: asking().PKeys}
		}
		p := rdmatest.NewProvider(rdmatest.NewFabric(), "memory", device("ask", askAddr, askerLID), device("sm", agentAddr, managerLID))
		defer p.Close()
		open := func(name string, methods ...ib.Method) rdma.MADPort {
			port, err := p.Device(name).OpenMAD(1, rdma.MADConfig{Class: ib.ClassSubnAdm, Version: sa.ClassVersion, Methods: methods})
			if err != nil {
				t.Fatal(err)
			}
			return port
		}
		sm := open("sm", ib.MethodGet)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b := make([]byte, rdma.MADBufferSize)
			for {
				n, from, err := sm.Receive(t.Context(), b)
				if err != nil {
					return
				}
				m := ib.MAD(b[:n])
				m.SetMethod(ib.MethodGetResp)
				r := m[sa.HeaderSize:]
				copy(r[8:], soughtGID[:])
				binary.BigEndian.PutUint16(r[40:], soughtLID)
				binary.BigEndian.PutUint16(r[42:], askerLID)
				binary.BigEndian.PutUint16(r[50:], uint16(ib.PKeyDefault))
				if r[53] = 4; bend != nil {
					bend(m, r)
				}
				_ = sm.Send(from, m) // the asker may have gone
			}
		}()
		f(t, Config{Port: open("ask")})
		p.Close()
		<-done
	})
}

func TestPathToAPortIsFoundByGIDAndByLID(t *testing.T) {
	administer(t, nil, func(t *testing.T, cfg Config) {
		want := Path{GID: soughtGID, PKey: ib.PKeyDefault, To: rdma.MADAddr{LID: soughtLID, SL: 4, QPN: 1, PKeyIndex: 2}}
		for name, to := range map[string]struct {
			gid ib.GID
			lid ib.LID
		}{"by GID": {gid: soughtGID}, "by LID": {lid: soughtLID}, "the GID counts": {soughtGID, 7}} {
			var said []string
			cfg.Trace = func(s Step) { said = append(said, s.String()) }
			got, stats, err := FindPath(t.Context(), cfg, asking(), to.gid, to.lid)
			if err != nil || got != want || stats != (Stats{Queries: 1, Sent: 1}) {
				t.Errorf("%s: %+v, %+v, %v", name, got, stats, err)
			}
			if len(said) != 2 || !strings.HasPrefix(said[0], "Get PathRecord to ") || !strings.HasSuffix(said[1], ": answered in 0s") {
				t.Errorf("%s: %q", name, said)
			}
		}
	})
}

// A path says with which of a port's LIDs, in which partition, and whether through a router.
func TestDatagramsGoAsThePathSays(t *testing.T) {
	for name, c := range map[string]struct {
		bend func(m ib.MAD, r []byte)
		port func(s *Subnet)
		want func(p *Path)
	}{
		"with path bits":        {func(_ ib.MAD, r []byte) { r[43] = askerLID + 5 }, func(s *Subnet) { s.LMC = 3 }, func(p *Path) { p.To.PathBits = 5 }},
		"in another partition":  {func(_ ib.MAD, r []byte) { r[50], r[51] = 0x80, 1 }, nil, func(p *Path) { p.PKey, p.To.PKeyIndex = 0x8001, 0 }},
		"to a limited member":   {func(_ ib.MAD, r []byte) { r[50], r[51] = 0, 1 }, nil, func(p *Path) { p.PKey, p.To.PKeyIndex = 1, 0 }},
		"from a limited member": {nil, func(s *Subnet) { s.PKeys = s.PKeys[:2] }, func(p *Path) { p.To.PKeyIndex = 1 }},
		"with a hop limit of 1": {func(_ ib.MAD, r []byte) { r[47] = 1 }, nil, func(*Path) {}},
		"through a router": {func(_ ib.MAD, r []byte) { copy(r[44:], "\x01\x23\x45\x40\x09") }, nil, func(p *Path) {
			p.To.HasGRH = true
			p.To.GRH = rdma.MADRoute{GID: soughtGID, HopLimit: 0x40, TrafficClass: 9, FlowLabel: 0x12345}
		}},
	} {
		administer(t, c.bend, func(t *testing.T, cfg Config) {
			s := asking()
			if c.port != nil {
				c.port(&s)
			}
			want := Path{GID: soughtGID, PKey: ib.PKeyDefault, To: rdma.MADAddr{LID: soughtLID, SL: 4, QPN: 1, PKeyIndex: 2}}
			c.want(&want)
			if got, _, err := FindPath(t.Context(), cfg, s, soughtGID, 0); err != nil || got != want {
				t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
			}
		})
	}
}

// What does not come about with a port that is not in order: not even a datagram is sent.
func TestPortThatIsNotInOrderAsksNobody(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Subnet)
		want   error
	}{
		"down":              {func(s *Subnet) { s.State = ib.PortDown }, ErrPortDown},
		"initializing":      {func(s *Subnet) { s.State = ib.PortInit }, ErrNoManager},
		"no LID":            {func(s *Subnet) { s.LID = 0 }, ErrNoManager},
		"no manager's LID":  {func(s *Subnet) { s.SMLID = 0 }, ErrNoManager},
		"no GID":            {func(s *Subnet) { s.GIDs = nil }, ErrNoManager},
		"no P_Keys":         {func(s *Subnet) { s.PKeys = nil }, ErrNotMember},
		"another partition": {func(s *Subnet) { s.PKeys = []ib.PKey{0x8001, 0} }, ErrNotMember},
	} {
		s := asking()
		c.change(&s)
		if _, stats, err := FindPath(t.Context(), Config{}, s, soughtGID, 0); !errors.Is(err, c.want) || stats != (Stats{}) {
			t.Errorf("%s: %v, %+v", name, err, stats)
		}
	}
}

func TestAnswerOfAHostileAdministratorIsNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		bend func(m ib.MAD, r []byte)
		want error
		says string
	}{
		"path from another port": {func(_ ib.MAD, r []byte) { r[39]++ }, sa.ErrPath, "it begins at GID"},
		"path to another port":   {func(_ ib.MAD, r []byte) { r[23]++ }, sa.ErrPath, "it ends at GID"},
		"path from another LID":  {func(_ ib.MAD, r []byte) { r[43]++ }, sa.ErrPath, "from LID 17, which is not of this port"},
		"path that is all ones": {func(_ ib.MAD, r []byte) {
			for i := range sa.PathRecordSize {
				r[i] = 0xFF
			}
		}, sa.ErrPath, ""},
		"partition of others":  {func(_ ib.MAD, r []byte) { r[50], r[51] = 0x80, 2 }, ErrNotMember, "8002: its keys are [8001 7fff ffff]"},
		"refusal":              {func(m ib.MAD, _ []byte) { m.SetStatus(sa.StatusNoRecords) }, nil, "refused with status 0300"},
		"another transaction":  {func(m ib.MAD, _ []byte) { m[15]++ }, ErrSilent, "subnet administration: Get PathRecord to GID "},
		"another attribute":    {func(m ib.MAD, _ []byte) { m[17]++ }, ErrSilent, "to LID 32: no answer to 5 tries of 1s each"},
		"busy until the limit": {func(m ib.MAD, _ []byte) { m.SetStatus(ib.StatusBusy) }, nil, "busy"},
	} {
		administer(t, c.bend, func(t *testing.T, cfg Config) {
			begin := time.Now()
			p, _, err := FindPath(t.Context(), cfg, asking(), soughtGID, 0)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !reflect.ValueOf(p).IsZero() {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("%s: after %v", name, d)
			}
		})
	}
}
