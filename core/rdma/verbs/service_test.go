//go:build verbs

package verbs

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// The layout of the kernel (include/rdma/ib.h): family in the host's order, P_Key, flow label, GID, service id, mask, scope.
func TestServiceAddressHasTheKernelsLayout(t *testing.T) {
	if hostLittle := addrFamily(27) == "1b00"; !hostLittle {
		t.Skip("the bytes below are those of a little-endian host")
	}
	ss := serviceAddr(rdma.ServiceID(5555), ib.GID{0: 0xFE, 1: 0x80, 8: 0x00, 9: 0x02, 10: 0xC9, 15: 0x34})
	const want = "1b00" + "ffff" + "00000000" + "fe80000000000000" + "0002c90000000034" + "00000000013f15b3" + "ffffffffffffffff" + "0000000000000000"
	b := addrBytes(&ss)
	if got := hex.EncodeToString(b[:48]); got != want || strings.Trim(string(b[48:]), "\x00") != "" {
		t.Errorf("bytes\n%s, want\n%s", got, want)
	}
	if a := addrPort(&ss); a.IsValid() {
		t.Errorf("it is taken for the IP address %v", a)
	}
}

func addrFamily(n uint16) string {
	ss := sockaddr(netip.MustParseAddrPort("1.2.3.4:5"))
	b := addrBytes(&ss)
	if b[0] == unix.AF_INET && b[1] == 0 {
		return hex.EncodeToString([]byte{byte(n), byte(n >> 8)})
	}
	return hex.EncodeToString([]byte{byte(n >> 8), byte(n)})
}

func TestServiceIDIsAPortsOfInfiniBand(t *testing.T) {
	ports := []rdma.Port{
		{Num: 1, Link: ib.LinkInfiniBand, GIDs: []ib.GID{{15: 1}, {}, {15: 11}}}, {Num: 2, Link: ib.LinkEthernet, GIDs: []ib.GID{{15: 2}}},
		{Num: 3, Link: ib.LinkUnspecified, GIDs: []ib.GID{{15: 3}}},
	}
	for _, row := range []struct {
		gid ib.GID
		why string
	}{
		{ib.GID{15: 1}, ""}, {ib.GID{15: 11}, ""},
		{ib.GID{15: 2}, "port 2 of mlx9"}, {ib.GID{15: 3}, "port 3 of mlx9"}, {ib.GID{15: 4}, "no port of mlx9"},
		{ib.GID{}, "no port of mlx9"},
	} {
		num, err := servicePort("mlx9", ports, row.gid)
		if row.why == "" && (err != nil || num != 1) || row.why != "" && (!errors.Is(err, rdma.ErrInvalid) || !strings.Contains(err.Error(), row.why)) {
			t.Errorf("%v: %v, want %q", row.gid, err, row.why)
		}
	}
}

func TestPartitionIsHonouredOrRefusedNeverReplaced(t *testing.T) {
	unread := errors.New("unread")
	for _, row := range []struct {
		asked, got ib.PKey
		err        error
		ok         bool
	}{
		{0xFFFF, 0xFFFF, nil, true}, {0x8001, 0x8001, nil, true}, {0x8001, 0x0001, nil, true}, {0x0001, 0x8001, nil, true}, {0x7FFF, 0xFFFF, nil, true},
		{0x8001, 0xFFFF, nil, false}, {0xFFFF, 0x8001, nil, false}, {0x0001, 0x0001, nil, false}, {0x8001, 0, nil, false}, {0x8000, 0x8000, nil, false},
		{0, 0xFFFF, nil, true}, {0x8001, 0x8001, unread, false},
	} {
		var log strings.Builder
		d := &Device{name: "x", log: hclog.New(&hclog.LoggerOptions{Output: &log})}
		info := rdma.ConnInfo{PKey: uint16(row.asked), Port: 2, RemoteGID: ib.GID{15: 7}}
		ok := d.inPartition(&info, func() (ib.PKey, error) { return row.got, row.err })
		if ok != row.ok {
			t.Errorf("%#04x where there is %#04x: %v", row.asked, row.got, ok)
		}
		if ok && info.PKey != uint16(row.got) {
			t.Errorf("%#04x where there is %#04x: told as %#04x", row.asked, row.got, info.PKey)
		}
		if refused := d.Stats()["partitions_refused"] == 1; refused == ok || strings.Contains(log.String(), "refused a connection") == ok {
			t.Errorf("%#04x where there is %#04x: counted %v, log %q", row.asked, row.got, refused, log.String())
		}
	}
}

// A queue pair whose peer has got the reply and sent, but whose confirmation is lost: only the connection manager can go on.
func TestFirstMessageIsPassedOnToTheConnectionManager(t *testing.T) {
	leaktest.Check(t)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	for _, row := range []struct {
		state state
		left  bool // its id is given up
		told  int
	}{{accepted, false, 1}, {accepted, true, 0}, {connected, false, 0}, {connecting, false, 0}, {ending, false, 0}, {closed, false, 0}} {
		var told []*cmID
		m := &manager{commEst: func(id *cmID) error { told = append(told, id); return unix.ENOTCONN }}
		id := &cmID{m: m, handle: 9}
		c := &cq{bell: bell}
		d := &Device{log: hclog.NewNullLogger()}
		q := &qp{cq: c, dev: d, state: row.state, id: id}
		if row.left {
			q.id = nil
		}
		d.qps = map[uint64]*qp{7: q}
		d.handleAsync(asyncEvent{kind: eventCommEst, handle: 8}) // of a queue pair that is not there any more
		d.handleAsync(asyncEvent{kind: eventCommEst, handle: 7})
		if len(told) != 0 {
			t.Error("it is told by another goroutine than the owner's")
		}
		c.takeNotes()
		if len(told) != row.told || row.told == 1 && told[0] != id {
			t.Errorf("state %d, left %v: told of %v", row.state, row.left, told)
		}
		if q.state != row.state {
			t.Errorf("state %d became %d: the event does that", row.state, q.state)
		}
	}
}

func TestAdapterThatIsNotThereIsToldInOneLine(t *testing.T) {
	for _, name := range []string{"nosuch9", "", "../x"} {
		_, err := ReadUMADAdapter(name)
		if !errors.Is(err, rdma.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %q", name, err)
		}
	}
}
