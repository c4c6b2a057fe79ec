package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

// upgradeTimeout bounds one upgrade: a start of the new process, and the waits for the requests and for the stores.
const upgradeTimeout = 2 * time.Minute

func pluginUpgradeCommand(o *options) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "upgrade NAME", Short: "replace a plugin's process by a new one, without a logout",
		Long: "Starts the new executable beside the old one, lets the old one finish what it has, hands the stores over and goes on. Commands that\n" +
			"come meanwhile wait. If the new one does not start, or cannot open the stores, the old one goes on. NAME is as\n" +
			"srptctl plugin list shows it.\n\nWithout --path the configured executable is started again: replace the file first (by renaming, as\n" +
			"package managers do). With it, that file is used, also for restarts, until the daemon ends: change the configuration too.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("plugin upgrade takes one name, as srptctl plugin list shows it")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if path != "" {
				abs, err := filepath.Abs(path)
				if err != nil {
					return usageError{err}
				}
				path = abs
			}
			ctx, cancel := context.WithTimeout(c.Context(), upgradeTimeout)
			defer cancel()
			defer tellWaiting(c.ErrOrStderr(), "upgrading "+args[0])()
			r, err := callFor(ctx, o, &adminpb.UpgradePluginRequest{Name: args[0], Path: path}, adminpb.AdminClient.UpgradePlugin)
			if err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), r, func(w io.Writer) { writeUpgrade(w, r) })
		},
	}
	c.Flags().StringVar(&path, "path", "", "the new executable (default: the configured one, which has been replaced)")
	return c
}

// tellWaiting says every second, from the second second on, that something is still under way, until the function that it returns is called.
func tellWaiting(w io.Writer, what string) (end func()) {
	begin, stop, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if t := time.Since(begin); t >= 2*time.Second {
					fmt.Fprintf(w, "%s: %s\n", what, t.Round(time.Second))
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

func writeUpgrade(w io.Writer, r *adminpb.UpgradePluginReply) {
	for _, v := range []struct {
		what string
		is   *adminpb.PluginVersion
	}{{"old", r.Old}, {"new", r.New}} {
		if v.is.GetPid() == 0 {
			fmt.Fprintf(w, "%s\tnone\n", v.what)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\tpid %d\t%s\n", v.what, v.is.Path, v.is.Pid, v.is.About)
	}
	for _, p := range r.Pauses {
		fmt.Fprintf(w, "LUN %s\tpaused for %s\t%d requests waited\n", cmp.Or(p.Lun, "-"),
			(time.Duration(p.Microseconds) * time.Microsecond).String(), p.RequestsWaited)
	}
}
