package main

import (
	"context"
	"errors"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/cmd/internal/about"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// describeTime bounds the start of a plugin and its answer.
const describeTime = 30 * time.Second

func pluginDescribeCommand(o *options) *cobra.Command {
	dirs := []string{"/usr/lib/gosrpt/plugins", "/usr/local/lib/gosrpt/plugins"}
	c := &cobra.Command{
		Use: "describe PLUGIN", Short: "show what a plugin is and which settings it takes",
		Long: "Starts a plugin's executable, given by its path or by its name in a plugin directory, asks it what it is, and ends it.\n" +
			"Nothing is opened, and no daemon is needed.",
		Example: "  srptctl plugin describe backstore-file\n  srptctl plugin describe ./my-plugin",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("describe takes one plugin, as a path or as a name")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			path, err := pluginhost.Find(dirs, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), describeTime)
			defer cancel()
			a, err := host.Describe(ctx, host.ControlOptions{Path: path, Log: hclog.NewNullLogger()})
			if err != nil {
				return err
			}
			if o.output == "json" {
				return writeJSON(c.OutOrStdout(), about.Of(a))
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			about.Of(a).Write(w)
			return w.Flush()
		},
	}
	c.Flags().StringSliceVar(&dirs, "plugin-dir", dirs, "directories of plugin executables")
	return c
}
