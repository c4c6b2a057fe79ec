package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "show what the target serves and its counters", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := call(c.Context(), o, &adminpb.StatusRequest{}, adminpb.AdminClient.Status)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), s, func(w io.Writer) { writeStatus(w, s) })
		},
	}
}

func writeStatus(w io.Writer, s *adminpb.StatusReply) {
	fmt.Fprintf(w, "srptd %s\tup %s\tprovider %s\n", s.Version, time.Duration(s.UptimeSeconds)*time.Second, s.Provider)
	fmt.Fprintf(w, "target\tid_ext %s\tioc_guid %s\n", s.IdExt, s.IocGuid)
	fmt.Fprintf(w, "sessions\t%d\n", s.Sessions)
	for _, u := range s.ChannelUse {
		fmt.Fprintf(w, "channels\t%s\t%d of %d\t%d kept for first channels\n", place(u), u.InUse, u.Limit, u.Reserved)
	}
	for _, l := range s.Listeners {
		fmt.Fprintf(w, "listener\t%s\t%s\t%s\n", l.Address, l.Device, l.State)
	}
	for _, l := range s.Luns {
		fmt.Fprintf(w, "lun %d\t%s\t%s\t%s\t%s\t%s\n", l.Lun, l.Name, l.Plugin,
			humanize.IBytes(l.Blocks*uint64(l.BlockSize)), access(l.ReadOnly), l.State)
		for _, line := range []string{l.Notice, unwell(l.Health)} {
			if line != "" {
				fmt.Fprintf(w, "\t%s\n", line)
			}
		}
	}
	for _, p := range s.Plugins {
		writePlugin(w, p)
	}
	writeCounters(w, "refused logins", s.RefusedLogins)
	writeCounters(w, "counters", s.Counters)
	for _, d := range s.Devices {
		for _, p := range d.Problems {
			fmt.Fprintf(w, "device %s\t%s\n", d.Name, oneLine(p))
		}
		writeCounters(w, "device "+d.Name, d.Counters)
	}
}

// place is what a limit of channels is of.
func place(u *adminpb.ChannelUse) string {
	if u.Device == "" {
		return "target"
	}
	return fmt.Sprintf("%s port %d", u.Device, u.Port)
}

// unwell is what a LUN's store says of its medium, if that is worth a line.
func unwell(health string) string {
	if health == "" || health == "good" {
		return ""
	}
	return "the store is " + health
}

// writeCounters lists the counters that are not zero, in order of name.
func writeCounters(w io.Writer, title string, counters map[string]uint64) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if counters[name] != 0 {
			fmt.Fprintf(w, "%s\t%s\t%d\n", title, name, counters[name])
		}
	}
}

func sessionsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "sessions", Short: "list who is logged in", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := call(c.Context(), o, &adminpb.SessionsRequest{}, adminpb.AdminClient.Sessions)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), s, func(w io.Writer) { writeSessions(w, s) })
		},
	}
}

func writeSessions(w io.Writer, s *adminpb.SessionsReply) {
	if len(s.Sessions) == 0 {
		fmt.Fprintln(w, "nobody is logged in")
		return
	}
	fmt.Fprintln(w, "SESSION\tINITIATOR\tAGE\tCHANNEL\tREMOTE\tLOCAL\tSTATE\tMTU\tCREDITS\tIN FLIGHT\tCOMMANDS\tREAD\tWRITTEN")
	for _, s := range s.Sessions {
		for _, c := range s.Channels {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", s.Id, s.InitiatorPortId,
				time.Duration(s.AgeSeconds)*time.Second, c.Qpn, c.Remote, c.Local, c.State, c.PathMtu, c.Credits,
				c.InFlight, c.Commands, humanize.IBytes(c.BytesIn), humanize.IBytes(c.BytesOut))
		}
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "SESSION\tPERMITTED BY\tACCESS\tCHANNELS\tMOST COMMANDS\tLUNS")
	for _, s := range s.Sessions {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d of %d\t%s\t%s\n", s.Id, cmp.Or(s.Permission, "no plugin is asked"), access(s.ReadOnly),
			len(s.Channels), s.ChannelLimit, quota(s.QueueDepth), visible(s))
	}
}

func access(readOnly bool) string {
	if readOnly {
		return "read-only"
	}
	return "read-write"
}

func quota(n uint32) string {
	if n == 0 {
		return "no quota"
	}
	return strconv.FormatUint(uint64(n), 10)
}

// visible lists the logical units that a session sees.
func visible(s *adminpb.Session) string {
	var list []string
	if s.AllLuns {
		list = append(list, "all:")
	}
	for _, l := range s.Luns {
		text := fmt.Sprintf("%d=%s", l.Lun, l.Name)
		if l.ReadOnly {
			text += " (read-only)"
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func connectInfoCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "connect-info", Short: "print the line that logs a Linux initiator in", Args: noArgs,
		Long: "Prints, for each address that the target listens at, the line to write to the initiator's\n" +
			"/sys/class/infiniband_srp/srp-<device>-<port>/add_target.",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call(c.Context(), o, &adminpb.ConnectInfoRequest{}, adminpb.AdminClient.ConnectInfo)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), r, func(w io.Writer) {
				for _, i := range r.Infos {
					fmt.Fprintln(w, i.AddTarget)
				}
			})
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version, and what it was built with", Args: noArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "srptctl version", c.Root().Version) },
	}
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, got %q", c.Name(), args[0])}
	}
	return nil
}
