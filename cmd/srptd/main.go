// Srptd is the SRP target daemon. It accepts logins of SRP initiators over RDMA and serves logical units whose blocks live in plugin
// processes.
//
// Signals: SIGTERM and SIGINT end it in order, initiators are told; a second one ends it at once.
// Exit codes: 0 ended in order, 1 failed, 2 wrong configuration or usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks errors of the command line.
type usageError struct{ error }

func main() {
	pluginhost.RunLauncher()
	spareProcessor()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "srptd:", err)
	var usage usageError
	var wrong *config.Error
	if errors.As(err, &usage) || errors.As(err, &wrong) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	var file string
	root := &cobra.Command{
		Use: "srptd", Short: "SCSI RDMA Protocol target daemon",
		Version: built.Own(admin.Version).String(), SilenceUsage: true, SilenceErrors: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(file, c.Flags())
			if err != nil {
				return err
			}
			return serve(c.Context(), cfg)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&file, "config", "", "configuration file (default: "+config.DefaultFile+" if it is there)")
	config.AddFlags(root.Flags())
	dump := &cobra.Command{
		Use: "config", Short: "print the configuration in force, defaults included, as YAML", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(file, c.Flags())
			if err != nil {
				return err
			}
			return yaml.NewEncoder(c.OutOrStdout()).Encode(cfg)
		},
	}
	config.AddFlags(dump.Flags())
	root.AddCommand(dump)
	return root
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, got %q", c.Name(), args[0])}
	}
	return nil
}

// serve runs the daemon until a signal.
func serve(ctx context.Context, cfg *config.Config) error {
	log := hclog.New(&hclog.LoggerOptions{
		Name: "srptd", Level: hclog.LevelFromString(cfg.Log.Level), JSONFormat: cfg.Log.JSON, Output: os.Stderr,
	})
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal has its default effect
	d, err := start(ctx, cfg, log)
	if d == nil {
		return err
	}
	<-ctx.Done()
	stop() // now at the latest
	return d.stop()
}
