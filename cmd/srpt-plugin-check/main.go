// Srpt-plugin-check holds a plugin's executable to its contract: it starts it as a host does, runs every check that its kind and its
// powers call for, and says what was run, skipped and failed. With --bench it measures a backstore plugin alone.
//
// Exit codes: 0 all passed, 1 a check failed, 2 wrong usage, 3 the plugin cannot be started.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

// Exit codes.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNotBegun = 3
)

// usageError marks errors of the command line.
type usageError struct{ error }

// errFailed says that a check failed; the report has told which.
var errFailed = errors.New("the plugin does not keep its contract")

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(errs)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := c.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errs, "srpt-plugin-check:", err)
	var usage usageError
	var start *plugintest.StartError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &start):
		return exitNotBegun
	}
	return exitFailed
}

func newCommand() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use: "srpt-plugin-check PLUGIN [-- ARGUMENT...]", Short: "hold a plugin's executable to its contract",
		Long: "Starts a plugin as a host does and runs every check that its kind and its powers call for.\n\n" +
			"The values of --config may contain {tmp}, a directory that is new for each check. A store without it is used\n" +
			"for every check and loses its data.",
		Example: "  srpt-plugin-check ./my-plugin --config path={tmp}/disk --config size=4MiB\n" +
			"  srpt-plugin-check ./my-auth --config list={tmp}/list --prepare 'cp list.yaml {tmp}/list' --allowed 0x...\n" +
			"  srpt-plugin-check ./my-plugin --config path=/dev/sdx --bench",
		Version: admin.Version, SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name the plugin's executable, as ./my-plugin; --help says more")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.options(args)
			if err != nil {
				return usageError{err}
			}
			return f.run(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f.register(c.Flags())
	return c
}
