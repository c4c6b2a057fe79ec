package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/doctor"
	"github.com/gosrpt/gosrpt/core/discover"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// askedAtOnce is how many addresses are asked at the same time.
const askedAtOnce = 16

// discoverFlags are the command's own flags.
type discoverFlags struct {
	from           string
	ib             infiniBand
	timeout, limit time.Duration
	tries          int
	verbose        bool
}

// infiniBand names an agent on an InfiniBand subnet, and the port to ask it from.
type infiniBand struct {
	ca   string
	port int
	lid  uint16
	gid  string
}

// route is an open way to an agent.
type route struct {
	// name is the agent's for the operator, from what it is asked from.
	name, from string
	port       rdma.MADPort
	to         rdma.MADAddr
	// line makes the line that logs in to a service at the end of the route. The error says why there is none.
	line func(mad.Controller, mad.Service) (string, error)
	// silence ends the question of what may be the cause of silence, ", and does ...".
	silence string
	// close gives up what belongs to the route, the port included.
	close func()
}

func discoverCommand(o *options) *cobra.Command {
	f := &discoverFlags{}
	c := &cobra.Command{
		Use: "discover [--from ADDR|IFACE] ADDR... | discover --ca NAME [--port N] --lid LID|--gid GID", Short: "ask targets on the network what they are, and print how to log in",
		Long: "Asks the discovery (Device Management) agent at each address, as an initiator on InfiniBand would, and prints for each\n" +
			"SRP target port the line to write to the initiator's /sys/class/infiniband_srp/srp-<device>-<port>/add_target.\n" +
			"Only such lines are written to the standard output. No daemon is needed.\n\n" +
			"Addresses are asked over RoCEv2 in userspace. The answers come to UDP port 4791, so nobody else may use that port of the\n" +
			"local address: neither srptd nor rdma_rxe. With --ca a port of an InfiniBand adapter asks, the agent at --lid or --gid; the\n" +
			"subnet manager is asked for the path to it. That needs an srptctl with verbs (srptctl --version).\n\n" +
			"Exit codes: 0 every address gave at least one line, 1 one did not, 2 wrong usage.",
		Example: "  srptctl discover 10.0.0.2\n  srptctl discover --from eth1 -v 10.0.0.2 fe80::2%eth1\n" +
			"  srptctl discover --ca mlx5_0 --port 1 --lid 7\n  srptctl discover --ca mlx5_0 --gid fe80::2:c903:11:2234",
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := o.check(); err != nil {
				return err
			}
			return f.run(ctx, o, c, args)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.from, "from", "", "local address or interface to ask from (default: the system's choice)")
	fs.StringVar(&f.ib.ca, "ca", "", "InfiniBand adapter to ask from, such as mlx5_0")
	fs.IntVar(&f.ib.port, "port", 1, "port of the adapter")
	fs.Uint16Var(&f.ib.lid, "lid", 0, "LID of the agent's port")
	fs.StringVar(&f.ib.gid, "gid", "", "GID of the agent's port")
	fs.DurationVar(&f.timeout, "timeout", time.Second, "how long an answer may take before a query is sent again")
	fs.IntVar(&f.tries, "tries", 5, "how often a query is sent at the most")
	fs.DurationVar(&f.limit, "limit", time.Minute, "how long an agent may take for everything")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show each query and what was found")
	return c
}

func (f *discoverFlags) check(args []string) error {
	switch {
	case f.timeout <= 0 || f.limit <= 0 || f.tries < 1:
		return errors.New("--timeout, --limit and --tries are more than 0")
	case f.ib.ca == "" && (f.ib.lid != 0 || f.ib.gid != "" || f.ib.port != 1):
		return errors.New("--port, --lid and --gid are for an InfiniBand adapter: name it with --ca")
	case f.ib.ca == "" && len(args) == 0:
		return errors.New("discover takes the addresses to ask")
	case f.ib.ca != "" && (len(args) != 0 || f.from != ""):
		return errors.New("with --ca an agent is named by --lid or --gid, not by an address")
	case f.ib.ca != "" && (f.ib.lid == 0) == (f.ib.gid == ""):
		return errors.New("--ca goes with one of --lid and --gid")
	}
	if f.ib.ca == "" {
		return nil
	}
	return f.ib.check()
}

func (i *infiniBand) check() error {
	switch {
	case i.port < 1 || i.port > 255:
		return fmt.Errorf("--port %d: ports of an adapter are 1 to 255", i.port)
	case i.gid == "" && !ib.LID(i.lid).IsUnicast():
		return fmt.Errorf("--lid %d: LIDs of ports are 1 to 49151", i.lid)
	case i.gid == "":
		return nil
	}
	g, err := ib.ParseGID(i.gid)
	if err == nil && (g.IsZero() || g[0] == 0xFF) {
		err = errors.New("it is not the GID of a port")
	}
	if err != nil {
		return fmt.Errorf("--gid %q: %w", i.gid, err)
	}
	return nil
}

func (f *discoverFlags) run(ctx context.Context, o *options, c *cobra.Command, args []string) error {
	if err := f.check(args); err != nil {
		return usageError{err}
	}
	said := &narrator{w: c.ErrOrStderr(), verbose: f.verbose}
	routes, closeAll, err := f.open(ctx, args, said.onTheWay)
	defer closeAll()
	if err != nil {
		return err
	}
	found := make([]discovered, len(routes))
	stop := said.watch(routes)
	atOnce := make(chan struct{}, askedAtOnce)
	var all sync.WaitGroup
	for i := range routes {
		all.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			found[i] = f.ask(ctx, &routes[i], said.about(i, routes[i].name))
		})
	}
	all.Wait()
	stop()
	return report(o, c.OutOrStdout(), said, found)
}

// open opens a way to every agent. What closeAll closes is open even with an error.
func (f *discoverFlags) open(ctx context.Context, args []string, trace func(discover.Step)) (routes []route, closeAll func(), err error) {
	e := &ethernet{from: f.from, ends: map[netip.Addr]*end{}}
	closeAll = func() {
		for _, r := range routes {
			r.close()
		}
		e.close()
	}
	if f.ib.ca != "" {
		r, err := openInfiniBand(ctx, f.ib, f.asking(trace))
		if err == nil {
			routes = append(routes, r)
		}
		return routes, closeAll, err
	}
	for _, arg := range args {
		r, err := e.route(ctx, arg)
		if err != nil {
			return routes, closeAll, err
		}
		routes = append(routes, r)
	}
	return routes, closeAll, nil
}

// asking is how patiently somebody is asked.
func (f *discoverFlags) asking(trace func(discover.Step)) discover.Config {
	return discover.Config{Timeout: f.timeout, Tries: f.tries, Limit: f.limit, Trace: trace}
}

func (f *discoverFlags) ask(ctx context.Context, r *route, trace func(discover.Step)) discovered {
	cfg := f.asking(trace)
	cfg.Port, cfg.To = r.port, r.to
	unit, stats, err := discover.Ask(ctx, cfg)
	return describe(r, unit, stats, err)
}

// report prints what was found. It is an error if an address gave no line.
func report(o *options, w io.Writer, said *narrator, found []discovered) error {
	if o.output == "json" {
		if err := writeJSON(w, map[string]any{"agents": found}); err != nil {
			return err
		}
	}
	barren := 0
	for i := range found {
		d := &found[i]
		if o.output == "text" {
			for _, line := range d.lines() {
				fmt.Fprintln(w, line)
			}
			said.found(d)
		}
		if len(d.lines()) == 0 || d.Error != "" {
			barren++
		}
	}
	if barren > 0 {
		return fmt.Errorf("%d of %s gave no line, or not all they have", barren, doctor.Plural(len(found), "agent"))
	}
	return nil
}
