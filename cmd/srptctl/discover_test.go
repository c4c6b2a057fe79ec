package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// An address belongs to one socket on UDP port 4791, of this process or another one.
var lastAddress atomic.Uint32

func loopback() netip.Addr {
	n := uint32(os.Getpid())*64 + lastAddress.Add(1)%64
	return netip.AddrFrom4([4]byte{127, byte(2 + n>>16%64), byte(n >> 8), byte(n)})
}

// roceAgent is a target's discovery on a device of the roce provider. bend turns its answer to request n, from 1, into
// what is sent; it may be nil.
func roceAgent(t *testing.T, bend func(n int, answer []byte) []byte, controllers ...mad.Controller) netip.Addr {
	t.Helper()
	addr := loopback()
	p := roce.New(roce.Config{Addrs: []netip.Addr{addr}})
	devices, err := p.Devices(t.Context())
	if err != nil || len(devices) != 1 {
		t.Fatalf("devices of %v: %v, %v", addr, devices, err)
	}
	if _, err := devices[0].Ports(); err != nil {
		t.Fatal(err)
	}
	reg, err := devices[0].(rdma.MADDevice).OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1, Methods: []ib.Method{ib.MethodGet}})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := mad.New(mad.Config{}, controllers)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		in := make([]byte, rdma.MADBufferSize)
		for n := 1; ; n++ {
			size, from, err := reg.Receive(t.Context(), in)
			if err != nil {
				return
			}
			answer, drop := agent.Answer(nil, in[:size])
			if bend != nil {
				answer = bend(n, answer)
			}
			if drop == mad.DropNone && answer != nil {
				_ = reg.Send(from, answer) // the asker may have gone
			}
		}
	})
	t.Cleanup(func() { p.Close(); served.Wait() })
	return addr
}

func controller(services ...mad.Service) mad.Controller {
	return mad.Controller{GUID: 0xBB, Vendor: 0x123456, Protocol: mad.SRP, SendDepth: 128, SendSize: 8276, TransferSize: 1 << 22,
		Operations: mad.SRPOperations, ID: "test", Services: services}
}

// discoverFrom runs the command from an address of its own.
func discoverFrom(t *testing.T, args ...string) (out, said string, code int) {
	t.Helper()
	root, o, e := newRoot(), &bytes.Buffer{}, &bytes.Buffer{}
	root.SetArgs(append([]string{"discover", "--from", loopback().String(), "--timeout", "10s"}, args...))
	root.SetOut(o)
	root.SetErr(e)
	err := root.Execute()
	return o.String(), e.String(), exitCode(err)
}

func TestDiscoverPrintsALineForEachTargetPort(t *testing.T) {
	two := controller(mad.SRPService(0xA3, cm.ServiceID(6000)))
	two.GUID, two.SendSize = 0xCC, 1024
	a := roceAgent(t, nil, controller(mad.SRPService(0xA1, cm.ServiceID(5555)), mad.Service{Name: "console", ID: 7},
		mad.SRPService(0xA2, cm.ServiceID(5556))), two).String()
	out, said, code := discoverFrom(t, a)
	want := "id_ext=00000000000000a1,ioc_guid=00000000000000bb,dest=" + a + ":5555,cmd_sg_entries=255\n" +
		"id_ext=00000000000000a2,ioc_guid=00000000000000bb,dest=" + a + ":5556,cmd_sg_entries=255\n" +
		"id_ext=00000000000000a3,ioc_guid=00000000000000cc,dest=" + a + ":6000,cmd_sg_entries=58,max_it_iu_size=1024\n"
	if out != want || code != 0 {
		t.Errorf("%d\n%s\nwant\n%s", code, out, want)
	}
	if want := a + `: slot 1: service "console": it is no SRP target` + "\n"; said != want {
		t.Errorf("said %q", said)
	}
}

func TestDiscoverTellsEachQueryWhenAsked(t *testing.T) {
	a := roceAgent(t, nil, controller(mad.SRPService(0xA1, cm.ServiceID(5555)))).String()
	_, said, code := discoverFrom(t, "-v", a)
	for _, want := range []string{
		a + ": Get IOUnitInfo\n", a + ": Get IOUnitInfo: answered in ", a + ": Get IOControllerProfile of slot 1\n",
		a + ": Get ServiceEntries 0 to 0 of slot 1\n", "1 controller in 16 slots", `slot 1: ioc_guid 00000000000000bb, id "test"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if code != 0 {
		t.Error(code)
	}
}

func TestDiscoverAnswersInJSONWhateverTheAgentSays(t *testing.T) {
	a := roceAgent(t, nil, controller(mad.SRPService(0xA1, cm.ServiceID(5555)), mad.SRPService(0xA2, 0xA2))).String()
	out, _, code := discoverFrom(t, "--output", "json", a)
	var got struct{ Agents []discovered }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Agents) != 1 {
		t.Fatalf("%d, %v\n%s", code, err, out)
	}
	d := got.Agents[0]
	s := d.Controllers[0].Services
	if d.Agent != a || d.Slots != 16 || s[0].AddTarget == "" || s[1].AddTarget != "" || !strings.Contains(s[1].Problem, "00000000000000a2 stands for no RDMA/CM port") {
		t.Errorf("%+v", d)
	}
}

// A service id that is no RDMA/CM port's is told; no port is made up.
func TestDiscoverMakesNoPortUp(t *testing.T) {
	a := roceAgent(t, nil, controller(mad.SRPService(0xA1, 0x013F_15B3), mad.SRPService(0xA2, cm.ServiceID(0)))).String()
	out, said, code := discoverFrom(t, a)
	if out != "" || code != exitFailed || strings.Count(said, "stands for no RDMA/CM port") != 2 {
		t.Errorf("%d %q %s", code, out, said)
	}
}

// What an agent writes is text for a terminal, and never more than one line.
func TestDiscoverPrintsNothingThatAnAgentForges(t *testing.T) {
	hostile := func(_ int, b []byte) []byte {
		m := ib.MAD(b)
		data := b[mad.HeaderSize:]
		switch m.AttrID() {
		case mad.AttrIOControllerProfile:
			copy(data[64:], "\x1b[2J\x1b]0;owned\x07\r\nid_ext=66\xff\xe2\x80\xae")
		case mad.AttrServiceEntries:
			copy(data, "SRP.T10:00000000000000a1,dest=6.6.6.6:6\n")
			copy(data[mad.ServiceSize:], "SRP.T10:00000000000000a2:\x1b[31m\n,dest=6\x00")
		}
		return b
	}
	a := roceAgent(t, hostile, controller(mad.SRPService(0xA1, cm.ServiceID(5555)), mad.SRPService(0xA2, cm.ServiceID(5556)))).String()
	out, said, code := discoverFrom(t, "-v", a)
	if want := "id_ext=00000000000000a2,ioc_guid=00000000000000bb,dest=" + a + ":5556,cmd_sg_entries=255\n"; out != want || code != 0 {
		t.Errorf("%d %q", code, out)
	}
	if strings.ContainsAny(said, "\x1b\x07\r\u202e") || strings.Contains(said, "\xff") || strings.Contains(said, "\nid_ext") {
		t.Errorf("%q", said)
	}
	out, _, _ = discoverFrom(t, "-o", "json", a)
	if strings.ContainsAny(out, "\x1b\x07\r\u202e") {
		t.Errorf("%q", out)
	}
}

func TestDiscoverGetsThroughALossyLink(t *testing.T) {
	t.Parallel()
	lossy := func(n int, b []byte) []byte {
		if n%2 == 1 {
			return nil
		}
		return b
	}
	a := roceAgent(t, lossy, controller(mad.SRPService(0xA1, cm.ServiceID(5555)))).String()
	out, said, code := discoverFrom(t, "--timeout", "200ms", "--tries", "50", "-v", a)
	if !strings.Contains(out, "dest="+a+":5555") || code != 0 || !strings.Contains(said, "try 2") {
		t.Errorf("%d %q %s", code, out, said)
	}
}

// An agent that says nothing is named, with what may be the cause, and the others are told all the same.
func TestDiscoverSaysWhoIsSilent(t *testing.T) {
	t.Parallel()
	a := roceAgent(t, nil, controller(mad.SRPService(0xA1, cm.ServiceID(5555)))).String()
	silent := roceAgent(t, func(int, []byte) []byte { return nil }, controller()).String()
	nobody := loopback().String()
	out, said, code := discoverFrom(t, "--timeout", "3s", "--tries", "2", silent, a, nobody)
	if !strings.Contains(out, "dest="+a+":5555") || strings.Count(out, "\n") != 1 || code != exitFailed {
		t.Errorf("%d %q", code, out)
	}
	for _, want := range []string{
		silent + ": device management: Get IOUnitInfo to 127.", "no answer to 2 tries of 3s each", "firewall", nobody + ": device management",
		"waiting for " + silent + " (Get IOUnitInfo, try ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

// A hostile agent does not hold the command up beyond its limit, and what was learnt is printed.
func TestDiscoverLeavesAnAgentThatHasNoEnd(t *testing.T) {
	t.Parallel()
	endless := func(_ int, b []byte) []byte {
		switch m := ib.MAD(b); m.AttrID() {
		case mad.AttrIOUnitInfo:
			b[mad.HeaderSize+2] = 255
			copy(b[mad.HeaderSize+4:], bytes.Repeat([]byte{0x11}, 128))
		case mad.AttrIOControllerProfile:
			if m.AttrMod() > 1 {
				return nil
			}
		}
		return b
	}
	a := roceAgent(t, endless, controller(mad.SRPService(0xA1, cm.ServiceID(5555)))).String()
	out, said, code := discoverFrom(t, "--limit", "8s", "--timeout", "5s", "--tries", "1", a)
	if !strings.Contains(out, "dest="+a+":5555") || code != exitFailed || !strings.Contains(said, "takes longer than its limit, 8s") {
		t.Errorf("%d %q %s", code, out, said)
	}
}

func TestDiscoverRefusesWhatItCannotAsk(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "takes the addresses", exitUsage},
		{[]string{"target.example"}, `"target.example" is not an IP address`, exitUsage},
		{[]string{"0.0.0.0"}, "not the address of a target", exitUsage},
		{[]string{"ff02::1"}, "not the address of a target", exitUsage},
		{[]string{"fe80::1"}, "fe80::1%eth0", exitUsage},
		{[]string{"--from", "127.0.0.1", "::1"}, "other IP version", exitUsage},
		{[]string{"--from", "nosuchif0", "127.0.0.2"}, `--from "nosuchif0" is neither`, exitUsage},
		{[]string{"--from", "198.51.100.1", "127.0.0.2"}, "no network interface has the address 198.51.100.1", exitFailed},
		{[]string{"--lid", "7"}, "--ca", exitUsage},
		{[]string{"--ca", "mlx5_0"}, "--lid and --gid", exitUsage},
		{[]string{"--ca", "mlx5_0", "--lid", "7", "10.0.0.1"}, "not by an address", exitUsage},
		{[]string{"--port", "2", "127.0.0.2"}, "--ca", exitUsage},
		{[]string{"--ca", "mlx5_0", "--lid", "7", "--gid", "fe80::1"}, "one of --lid and --gid", exitUsage},
		{[]string{"--ca", "mlx5_0", "--port", "0", "--lid", "7"}, "1 to 255", exitUsage},
		{[]string{"--ca", "mlx5_0", "--lid", "49152"}, "1 to 49151", exitUsage},
		{[]string{"--ca", "mlx5_0", "--lid", "65536"}, "--lid", exitUsage},
		{[]string{"--ca", "mlx5_0", "--gid", "fe80"}, `--gid "fe80"`, exitUsage},
		{[]string{"--ca", "mlx5_0", "--gid", "::"}, "not the GID of a port", exitUsage},
		{[]string{"--ca", "mlx5_0", "--gid", "ff12::1"}, "not the GID of a port", exitUsage},
		{[]string{"--tries", "0", "127.0.0.2"}, "more than 0", exitUsage},
		{[]string{"-o", "xml", "127.0.0.2"}, "text or json", exitUsage},
	} {
		if _, err := ctl(t, append([]string{"discover"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err) != c.code {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

func TestLocalAddressOfAnInterfaceIsOfTheTargetsKind(t *testing.T) {
	if a, err := localAddr("--from", "lo", netip.MustParseAddr("127.0.0.9")); err != nil || a != netip.MustParseAddr("127.0.0.1") {
		t.Error(a, err)
	}
	if _, err := localAddr("--from", "lo", netip.MustParseAddr("fe80::1%lo")); err == nil || !strings.Contains(err.Error(), "lo has no address") {
		t.Error(err)
	}
	if a, err := localAddr("--from", "", netip.MustParseAddr("127.0.0.9")); err != nil || a != netip.MustParseAddr("127.0.0.1") {
		t.Error(a, err)
	}
}
