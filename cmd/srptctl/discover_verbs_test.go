//go:build verbs

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs"
	"github.com/gosrpt/gosrpt/core/rdma/verbs/ibsimtest"
)

func TestProcessOfANode(t *testing.T) {
	ibsimtest.Play(t, map[string]ibsimtest.Role{"agent": agentRole, "port": portRole, "srptctl": srptctlRole})
}

// argsEnv are the arguments of srptctlRole.
const argsEnv = "GOSRPT_TEST_ARGS"

// srptctlRole is srptctl itself.
func srptctlRole(context.Context, *bufio.Scanner) error {
	os.Exit(run(strings.Fields(os.Getenv(argsEnv))))
	return nil
}

// portRole says what the node's port is.
func portRole(context.Context, *bufio.Scanner) error {
	a, err := nodeAdapter()
	if err != nil {
		return err
	}
	return ibsimtest.Reply(a)
}

// agentRole answers discovery for two controllers. It answers a line of input when it is ready.
func agentRole(ctx context.Context, in *bufio.Scanner) error {
	a, err := nodeAdapter()
	if err != nil {
		return err
	}
	for _, class := range []ib.Class{ib.ClassSubnLID, ib.ClassSubnDR} {
		if err := serveOn(ctx, a.Name, class, func(m ib.MAD) ib.MAD { ibsimtest.NoManager(m, a.Ports[0].GUID); return m }); err != nil {
			return err
		}
	}
	two := controller(mad.SRPService(0xA3, 0xC3))
	two.GUID, two.SendSize = 0xCC, 1024
	agent, err := mad.New(mad.Config{}, []mad.Controller{
		controller(mad.SRPService(0xA1, 0xC1), mad.Service{Name: "console", ID: 7}, mad.SRPService(0xA2, 0xC2)), two})
	if err != nil {
		return err
	}
	err = serveOn(ctx, a.Name, ib.ClassDeviceMgmt, func(m ib.MAD) ib.MAD {
		answer, _ := agent.Answer(nil, m)
		return answer
	})
	for err == nil && in.Scan() {
		err = ibsimtest.Reply("ready")
	}
	return err
}

// nodeAdapter is the adapter of the process's node, as it was when the process started.
func nodeAdapter() (verbs.UMADAdapter, error) {
	list, err := verbs.UMADAdapters()
	if err != nil || len(list) != 1 || len(list[0].Ports) != 1 {
		return verbs.UMADAdapter{}, fmt.Errorf("adapters %+v: %w", list, err)
	}
	return list[0], nil
}

// serveOn answers the requests of a class, which answer may change.
func serveOn(ctx context.Context, ca string, class ib.Class, answer func(ib.MAD) ib.MAD) error {
	p, err := verbs.OpenUMAD(ca, 1, rdma.MADConfig{Class: class, Version: 1, Methods: []ib.Method{ib.MethodGet, ib.MethodSet}})
	if err != nil {
		return err
	}
	go func() {
		b := make([]byte, rdma.MADBufferSize)
		for {
			n, from, err := p.Receive(ctx, b)
			if err != nil {
				return
			}
			if m := ib.MAD(b[:n]); n == ib.MADSize && !m.Method().IsResponse() {
				if err := p.Send(from, answer(m)); err != nil {
					fmt.Println("no answer:", err)
				}
			}
		}
	}()
	return nil
}

// fabric is a subnet with a real manager, from a node of which is asked.
type fabric struct {
	*ibsimtest.Subnet
	manager *ibsimtest.Program
}

func newFabric(t *testing.T) *fabric {
	f := &fabric{Subnet: ibsimtest.New(t)}
	var ready string
	f.StartRole("H1", "agent", "SIM_SET_ISSM=1").Ask(t, &ready, "") // before any manager asks
	f.manager = f.StartManager(ibsimtest.Manager{Node: "H0", Priority: 10})
	f.manager.Says(t, "SUBNET UP")
	return f
}

// port is a node's port as it is now.
func (f *fabric) port(node string) verbs.UMADPort {
	f.Helper()
	p := f.StartRole(node, "port")
	defer p.Kill()
	var a verbs.UMADAdapter
	if p.Ask(f.T, &a, ""); len(a.Ports) != 1 || !a.Ports[0].Active || !a.Ports[0].LID.IsUnicast() {
		f.Fatalf("%s has %+v", node, a)
	}
	return a.Ports[0]
}

// discoverOn runs srptctl discover on a node.
func discoverOn(s *ibsimtest.Subnet, node, args string) (out, said string, code int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), ibsimtest.Patience)
	defer cancel()
	var o, e bytes.Buffer
	c := s.Role(node, "srptctl", argsEnv+"=discover "+args)
	c.Stdout, c.Stderr = &o, &e
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.Process.Kill() })() // it may have ended
	err := c.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		s.Fatalf("srptctl discover %s: %v, it said %s", args, err, e.String())
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// refuses checks that there is no line, and what is said of it.
func refuses(s *ibsimtest.Subnet, node, args string, want ...string) {
	s.Helper()
	out, said, code := discoverOn(s, node, "--ca ibsim0 --timeout 10s --tries 2 "+args)
	if out != "" || code != exitFailed {
		s.Errorf("%s: %d %q", args, code, out)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			s.Errorf("%s: no %q in\n%s", args, w, said)
		}
	}
}

func TestDiscoverSaysWhyAPortCannotAsk(t *testing.T) {
	s := ibsimtest.New(t)
	refuses(s, "H2", "--lid 2", "ibsim0 port 1: the port has no subnet manager", "systemctl start opensm")
	refuses(s, "H3", "--lid 2", "ibsim0 port 1: the port is down", "cable")
	refuses(s, "H2", "--port 2 --lid 1", "--port 2: adapter ibsim0 has 1 port,")
	refuses(s, "H2", "--ca nosuch0 --lid 1", `--ca "nosuch0": there is no such adapter`)
}

func TestDiscoverFindsAnAgentOnASubnetByLIDAndByGID(t *testing.T) {
	f := newFabric(t)
	agent := f.port("H1")
	gid := ib.MakeGID(ib.LinkLocalPrefix, agent.GUID)
	want := ""
	for _, l := range []string{
		"id_ext=00000000000000a1,ioc_guid=00000000000000bb,dgid=%s,pkey=ffff,service_id=00000000000000c1,cmd_sg_entries=255\n",
		"id_ext=00000000000000a2,ioc_guid=00000000000000bb,dgid=%s,pkey=ffff,service_id=00000000000000c2,cmd_sg_entries=255\n",
		"id_ext=00000000000000a3,ioc_guid=00000000000000cc,dgid=%s,pkey=ffff,service_id=00000000000000c3,cmd_sg_entries=58,max_it_iu_size=1024\n",
	} {
		want += fmt.Sprintf(l, gid.Hex())
	}
	for _, to := range []string{fmt.Sprintf("--lid %d", agent.LID), "--gid " + gid.String(), "--port 1 --gid " + gid.Hex()} {
		out, said, code := discoverOn(f.Subnet, "H2", "--ca ibsim0 --timeout 10s "+to)
		if out != want || code != 0 || strings.Count(said, "\n") != 1 || !strings.Contains(said, `service "console": it is no SRP target`) {
			t.Errorf("%s: %d\n%s\nwant\n%s\nsaid %s", to, code, out, want, said)
		}
	}
	lid := fmt.Sprintf("LID %d", agent.LID)
	_, said, code := discoverOn(f.Subnet, "H2", fmt.Sprintf("--ca ibsim0 --timeout 10s -v --lid %d", agent.LID))
	for _, w := range []string{"Get PathRecord to " + lid + "\n", "Get PathRecord to " + lid + ": answered in ", lid + ": Get IOUnitInfo\n",
		lid + ": asked from ibsim0 port 1: 2 controllers in 16 slots"} {
		if !strings.Contains(said, w) || code != 0 {
			t.Errorf("%d, no %q in\n%s", code, w, said)
		}
	}
}

func TestDiscoverSaysThatNobodyIsAtAnAddress(t *testing.T) {
	f := newFabric(t)
	const nobody = "fe80:0000:0000:0000:0000:0000:0000:0666"
	refuses(f.Subnet, "H2", "--lid 999", "subnet administration: Get PathRecord to LID 999: refused with status", "is LID 999 a port of the subnet")
	refuses(f.Subnet, "H2", "--gid "+nobody, "Get PathRecord to GID "+nobody+": refused with status", "is GID "+nobody+" a port of the subnet")

	// Nobody answers discovery at the node that asks.
	asker := f.port("H2")
	itself := fmt.Sprintf("--lid %d", asker.LID)
	refuses(f.Subnet, "H2", itself+" --timeout 3s", "device management: Get IOUnitInfo to LID", "no answer to 2 tries of 3s each", "is a target there", "smpquery portinfo")

	f.manager.Kill()
	refuses(f.Subnet, "H2", itself+" --timeout 500ms", "subnet administration: Get PathRecord to LID", "no answer to 2 tries of 500ms each",
		fmt.Sprintf("is the subnet manager at LID %d alive", asker.SMLID))
}
