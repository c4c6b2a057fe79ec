//go:build verbs

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/doctor"
	"github.com/gosrpt/gosrpt/core/discover"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/mad/sa"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/verbs"
)

// openInfiniBand opens the way to an agent on an InfiniBand subnet: the subnet's administrator is asked for it, as patiently
// as cfg says. Lines have the dgid and pkey of the path.
func openInfiniBand(ctx context.Context, from infiniBand, cfg discover.Config) (route, error) {
	subnet, err := from.subnet()
	if err != nil {
		return route{}, err
	}
	path, err := from.path(ctx, subnet, cfg)
	if err != nil {
		return route{}, from.mend(err, subnet.SMLID)
	}
	port, err := verbs.OpenUMAD(from.ca, from.port, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: mad.ClassVersion})
	if err != nil {
		return route{}, err
	}
	return route{
		name: from.agent(), from: from.String(), port: port, to: path.To, line: lineAlong(path), close: func() { _ = port.Close() },
		silence: fmt.Sprintf(", and is the port of LID %d up (smpquery portinfo %d)", path.To.LID, path.To.LID),
	}, nil
}

// subnet reads the port that is to ask.
func (i infiniBand) subnet() (discover.Subnet, error) {
	a, err := verbs.ReadUMADAdapter(i.ca)
	if errors.Is(err, rdma.ErrInvalid) {
		return discover.Subnet{}, fmt.Errorf("--ca %q: there is no such adapter; those that there are: ls /sys/class/infiniband", i.ca)
	}
	if err != nil {
		return discover.Subnet{}, err
	}
	n := slices.IndexFunc(a.Ports, func(p verbs.UMADPort) bool { return p.Num == i.port })
	if n < 0 {
		return discover.Subnet{}, fmt.Errorf("--port %d: adapter %s has %s, and not that one", i.port, i.ca, doctor.Plural(len(a.Ports), "port"))
	}
	p := a.Ports[n]
	if p.Link == ib.LinkEthernet {
		return discover.Subnet{}, fmt.Errorf("%v is on Ethernet: ask the target's address (srptctl discover ADDR)", i)
	}
	return discover.Subnet{Port: p.Port, SMSL: p.SMSL}, nil
}

func (i infiniBand) path(ctx context.Context, s discover.Subnet, cfg discover.Config) (discover.Path, error) {
	var gid ib.GID
	if i.gid != "" {
		gid, _ = ib.ParseGID(i.gid) // check has seen it
	}
	port, err := verbs.OpenUMAD(i.ca, i.port, rdma.MADConfig{Class: ib.ClassSubnAdm, Version: sa.ClassVersion})
	if err != nil {
		return discover.Path{}, err
	}
	defer port.Close()
	cfg.Port = port
	p, _, err := discover.FindPath(ctx, cfg, s, gid, ib.LID(i.lid))
	return p, err
}

// mend adds what the operator can do about there being no path.
func (i infiniBand) mend(err error, manager ib.LID) error {
	var refused *sa.StatusError
	var do string
	switch {
	case errors.Is(err, discover.ErrPortDown):
		do = "look at the cable and at the switch's port"
	case errors.Is(err, discover.ErrNoManager):
		do = "start one, on a switch or on a host of the subnet: systemctl start opensm"
	case errors.Is(err, discover.ErrNotMember):
		do = "the subnet manager has to make it a member (opensm: partitions.conf)"
	case errors.Is(err, discover.ErrSilent):
		do = fmt.Sprintf("is the subnet manager at LID %d alive (sminfo)?", manager)
	case errors.As(err, &refused):
		do = fmt.Sprintf("is %s a port of the subnet (ibnetdiscover), and in a partition of %v?", i.agent(), i)
	default:
		return fmt.Errorf("%v: %w", i, err)
	}
	return fmt.Errorf("%v: %w; %s", i, err, do)
}

// String names the port that asks.
func (i infiniBand) String() string { return fmt.Sprintf("%s port %d", i.ca, i.port) }

// agent names whom it asks.
func (i infiniBand) agent() string {
	if i.gid != "" {
		return "GID " + i.gid
	}
	return fmt.Sprintf("LID %d", i.lid)
}

// lineAlong makes lines that log in over a path.
func lineAlong(p discover.Path) func(mad.Controller, mad.Service) (string, error) {
	return func(c mad.Controller, s mad.Service) (string, error) {
		line, srp := c.AddTarget(s, p.GID, p.PKey)
		if !srp {
			return "", errNotSRP
		}
		return line, nil
	}
}
