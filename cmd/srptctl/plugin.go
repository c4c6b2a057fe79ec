package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

func pluginCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "plugin", Short: "look after plugin processes", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return usageError{fmt.Errorf("plugin wants a command; srptctl plugin --help lists them")}
	}}
	c.AddCommand(pluginListCommand(o), pluginUpgradeCommand(o), pluginDescribeCommand(o), pluginNewCommand())
	return c
}

func pluginListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list plugin processes and what waits on each", Args: noArgs,
		Long: "Lists every plugin process. WAITING requests are not handed to it yet, because there is no process or its queue\n" +
			"is full; IN FLIGHT ones it has not answered. STALLED is for how long it has left requests untaken.",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := call(c.Context(), o, &adminpb.PluginsRequest{}, adminpb.AdminClient.Plugins)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), r, func(w io.Writer) { writePlugins(w, r.Plugins) })
		},
	}
}

func writePlugins(w io.Writer, plugins []*adminpb.Plugin) {
	if len(plugins) == 0 {
		fmt.Fprintln(w, "there are no plugins")
		return
	}
	fmt.Fprintln(w, "KIND\tNAME\tSTATE\tFOR\tPID\tRESTARTS\tWAITING\tIN FLIGHT\tOLDEST\tSTALLED\tEXECUTABLE\tLAST ERROR")
	for _, p := range plugins {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", p.Kind, p.Name, p.State, seconds(p.StateSeconds),
			pid(p), p.Restarts, p.RequestsWaiting, p.RequestsFlying, millis(p.OldestMs), millis(p.StalledMs),
			cmp.Or(p.Path, p.Executable), cmp.Or(oneLine(p.LastError), "-"))
	}
}

// writePlugin writes the lines of a plugin in the status.
func writePlugin(w io.Writer, p *adminpb.Plugin) {
	fmt.Fprintf(w, "plugin %s\t%s\t%s\t%s for %s\tpid %s\t%d restarts\n", p.Kind, p.Name, cmp.Or(p.Path, p.Executable), p.State,
		seconds(p.StateSeconds), pid(p), p.Restarts)
	for _, line := range []string{p.About, p.Notice} {
		if line != "" {
			fmt.Fprintf(w, "\t%s\n", line)
		}
	}
	if p.LastError != "" {
		fmt.Fprintf(w, "\tlast error: %s\n", oneLine(p.LastError))
	}
}

// oneLine makes a cell of a table of an error that has several lines.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func millis(n uint64) string {
	if n == 0 {
		return "-"
	}
	return (time.Duration(n) * time.Millisecond).String()
}

func pid(p *adminpb.Plugin) string {
	if p.Pid == 0 {
		return "-"
	}
	return fmt.Sprint(p.Pid)
}
