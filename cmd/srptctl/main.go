// Srptctl is the operator's command: it asks a running srptd for its state, ends sessions, prints what an
// initiator needs to log in, asks the network for targets, examines the host, and measures a target as an initiator of its own.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the daemon does not answer.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/admin"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// usageError marks errors of the command line.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.Execute()
	if err != nil {
		fmt.Fprintln(os.Stderr, "srptctl:", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	var unreachable *unreachableError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &unreachable):
		return exitUnreachable
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:           "srptctl",
		Version:       built.Own(admin.Version).String(),
		Short:         "operate a gosrpt target",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&o.socket, "socket", defaultSocket(), "control socket of the daemon (GOSRPT_ADMIN_SOCKET)")
	root.PersistentFlags().StringVarP(&o.output, "output", "o", "text", "text or json")
	root.AddCommand(statusCommand(o), sessionsCommand(o), logoutCommand(o), connectInfoCommand(o), pluginCommand(o), fabricCommand(o), eventsCommand(o), discoverCommand(o), doctorCommand(o), benchCommand(o), versionCommand())
	return root
}

func defaultSocket() string {
	if s := os.Getenv("GOSRPT_ADMIN_SOCKET"); s != "" {
		return s
	}
	return "/run/gosrpt/srptd.sock"
}
