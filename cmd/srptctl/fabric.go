package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

func fabricCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "fabric", Short: "show HCAs and ports: links, addresses, subnet manager, discovery", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call(c.Context(), o, &adminpb.FabricRequest{}, adminpb.AdminClient.Fabric)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), r, func(w io.Writer) { writeFabric(w, r) })
		},
	}
}

func writeFabric(w io.Writer, r *adminpb.FabricReply) {
	fmt.Fprintf(w, "rules\t%s\n", cmp.Or(strings.Join(r.Rules, " "), "all interfaces that are up but loopback"))
	if len(r.Hcas) == 0 {
		fmt.Fprintln(w, "there are no HCAs")
	}
	for _, h := range r.Hcas {
		state := "serving"
		if !h.Serving {
			state = "not served: " + oneLine(cmp.Or(h.Problem, "it is being opened"))
		}
		fmt.Fprintf(w, "HCA %s\tnode GUID %s\t%s\n", h.Name, h.NodeGuid, state)
		for _, p := range h.Ports {
			writePort(w, p)
		}
		writeCounters(w, "  counter", h.Counters)
	}
	if r.IgnoredEvents != 0 {
		fmt.Fprintf(w, "events ignored\t%d\n", r.IgnoredEvents)
	}
}

func writePort(w io.Writer, p *adminpb.HcaPort) {
	fmt.Fprintf(w, "  port %d\t%s\t%s for %s\tMTU %d\tport GUID %s\n", p.Num, p.Link, p.State, seconds(p.SinceSeconds), p.Mtu, p.Guid)
	if p.Lid != 0 || p.Link == "InfiniBand" {
		fmt.Fprintf(w, "    LID %d/%d\tSM LID %d\n", p.Lid, p.Lmc, p.SmLid)
	}
	for i, g := range p.Gids {
		fmt.Fprintf(w, "    GID %d\t%s\n", i, g)
	}
	fmt.Fprintf(w, "    addresses\t%s\n", cmp.Or(strings.Join(p.Addresses, " "), "none"))
	var keys []string
	for _, k := range p.Pkeys {
		keys = append(keys, fmt.Sprintf("%#04x", k))
	}
	fmt.Fprintf(w, "    P_Keys\t%s\n", cmp.Or(strings.Join(keys, " "), "none"))
	discovery := fmt.Sprintf("answered %d, dropped %d, could not be sent %d", p.Answered, p.Dropped, p.Failed)
	if !p.Discovery {
		discovery = "off: " + oneLine(cmp.Or(p.DiscoveryProblem, "not registered"))
	}
	fmt.Fprintf(w, "    discovery\t%s\n", discovery)
	if p.Problem != "" {
		fmt.Fprintf(w, "    cannot be read\t%s\n", oneLine(p.Problem))
	}
}

func eventsCommand(o *options) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use: "events", Short: "list what happened to devices and ports, and what was done about it", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := callFor(c.Context(), o, &adminpb.EventsRequest{Follow: follow},
				func(cl adminpb.AdminClient, ctx context.Context, q *adminpb.EventsRequest, opts ...grpc.CallOption) (struct{}, error) {
					stream, err := cl.Events(ctx, q, opts...)
					if err != nil {
						return struct{}{}, err
					}
					return struct{}{}, o.printEvents(c.OutOrStdout(), stream)
				})
			return err
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those that come")
	return c
}

// printEvents prints a line for each event: text, or a JSON object.
func (o *options) printEvents(w io.Writer, stream grpc.ServerStreamingClient[adminpb.Event]) error {
	for {
		ev, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s  %s", time.UnixMilli(ev.UnixMs).Format("2006-01-02T15:04:05.000Z07:00"), ev.Device)
		if ev.Port != 0 {
			line += fmt.Sprintf(" port %d", ev.Port)
		}
		line += fmt.Sprintf(": %s: %s", ev.Event, ev.Action)
		if o.output == "json" {
			b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(ev)
			if err != nil {
				return err
			}
			line = string(b)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
}
