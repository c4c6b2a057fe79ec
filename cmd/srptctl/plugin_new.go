package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/scaffold"
	"github.com/gosrpt/gosrpt/core/admin"
)

func pluginNewCommand() *cobra.Command {
	p := &scaffold.Project{}
	var sdk, dir string
	c := &cobra.Command{
		Use: "new KIND NAME", Short: "write the beginning of a plugin of your own",
		Long: "Writes a Go module of its own, with a plugin of the kind backstore, auth or ioctx that works and passes its\n" +
			"conformance kit. What is there already is not overwritten.\n\n" +
			"--sdk names the SDK to build against: a version such as v1.2.0, or the path of a checkout of gosrpt. The default\n" +
			"is the version of this srptctl, if that is a release.",
		Example: "  srptctl plugin new backstore my-disk\n  srptctl plugin new auth my-logins --sdk ~/src/gosrpt --module example.com/me/logins",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("new takes a kind (%s) and a name", strings.Join(scaffold.Kinds, ", "))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p.Kind, p.Name = args[0], args[1]
			if dir == "" {
				dir = p.Name
			}
			if err := p.UseSDK(sdk, admin.Version); err != nil {
				return usageError{err}
			}
			files, err := p.Write(dir)
			var wrong *scaffold.InputError
			if errors.As(err, &wrong) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			for _, f := range files {
				fmt.Fprintln(out, f)
			}
			fmt.Fprintf(out, "\ncd %s && make test check; README.md says how to go on\n", dir)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "directory to write to (default: NAME)")
	c.Flags().StringVar(&p.Module, "module", "", "path of the Go module (default: example.com/NAME)")
	c.Flags().StringVar(&sdk, "sdk", "", "version of the SDK, or path of a checkout of gosrpt")
	return c
}
