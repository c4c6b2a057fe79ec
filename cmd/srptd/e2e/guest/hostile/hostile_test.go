//go:build verbs

package hostile

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

// peer is from GOSRPT_HOSTILE=LOCAL,TARGET:PORT, as in 192.0.2.1,192.0.2.2:5555.
func peer(t *testing.T) hostile.Peer {
	t.Helper()
	text := os.Getenv("GOSRPT_HOSTILE")
	if text == "" {
		t.Skip("needs an RDMA device and a target: set GOSRPT_HOSTILE to the address of the one and the address and port of the other")
	}
	from, to, _ := strings.Cut(text, ",")
	local, err := netip.ParseAddr(from)
	if err != nil {
		t.Fatal(err)
	}
	target, err := netip.ParseAddrPort(to)
	if err != nil {
		t.Fatal(err)
	}
	p := verbs.New(verbs.Config{Log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn})})
	t.Cleanup(func() { p.Close() })
	list, err := p.Devices(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		ports, err := d.Ports()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(ports, func(p rdma.Port) bool { return slices.Contains(p.Addrs, local) }) {
			return hostile.Peer{Device: d, Local: local, Target: target}
		}
	}
	t.Fatalf("no device has the address %v", local)
	return hostile.Peer{}
}

func TestEveryLoginIsAnsweredByteForByte(t *testing.T) {
	p := peer(t)
	for i, row := range hostile.LoginRows() {
		t.Run(row.Name, func(t *testing.T) {
			for _, b := range row.Before {
				c := hostile.Knock(t, p, hostile.LoginBytes(false, uint16(i), b))
				defer c.Close()
				if a := c.Answer(); a.Event != rdma.EventEstablished {
					t.Fatalf("before it: %+v", a)
				}
			}
			c := hostile.Knock(t, p, hostile.LoginBytes(false, uint16(i), row.Changes))
			defer c.Close()
			a := c.Answer()
			want := rdma.EventEstablished
			if row.Refused() {
				want = rdma.EventRejected
			}
			if a.Event != want || !row.Is(a.Data) || row.Refused() && a.Reason != rdma.RejectConsumer {
				t.Errorf("event %v, REJ %d, with\n%x, want\n%s", a.Event, a.Reason, a.Data, row.Want)
			}
		})
	}
}

func TestEveryUnitGetsItsAnswer(t *testing.T) {
	p := peer(t)
	for i, row := range hostile.Units() {
		t.Run(row.Name, func(t *testing.T) {
			r := srp.LoginReq{
				Formats: srp.FormatsDirect | srp.FormatsIndirect, Initiator: srp.MakePortID(1, uint64(i)+1),
				Target: srp.MakePortID(hostile.TargetIDExt, hostile.TargetIOCGUID),
			}
			if err := hostile.Try(t, p, r, row); err != nil {
				t.Error(err)
			}
		})
	}
}
