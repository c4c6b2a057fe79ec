package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/doctor"
	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/config"
)

func doctorCommand(o *options) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "doctor", Short: "look for what would keep initiators out, and say what mends it", Args: noArgs,
		Long: "Looks at this host as it is now, whether srptd runs or not: programs, kernel, configuration, plugins, addresses, links, UDP\n" +
			"port 4791, packet filters, socket buffers, memory limits, the kernel's own target, RDMA adapters. It changes nothing.\n" +
			"A plain user may run it; what needs root to be seen is then listed as not checked.\n\n" +
			"Exit codes: 0 there is no problem (warnings do not count), 1 there is one, 2 wrong usage.",
		Example: "  srptctl doctor\n  srptctl doctor --config /etc/gosrpt/srptd.yaml --output json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			h := doctor.Local(admin.Version)
			h.ConfigFile, h.Ask = file, askDaemon
			h.Config = func() (*config.Config, error) { return config.Load(file, nil) }
			if c.Flags().Changed("socket") {
				h.Socket = o.socket
			}
			found := doctor.Run(c.Context(), h)
			var err error
			if o.output == "json" {
				err = writeJSON(c.OutOrStdout(), map[string]any{"findings": found})
			} else {
				err = doctor.Write(c.OutOrStdout(), found)
			}
			if n := doctor.Count(found, doctor.Problem); n > 0 && err == nil {
				err = fmt.Errorf("found %s", doctor.Plural(n, "problem"))
			}
			return err
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration file of srptd (default: "+config.DefaultFile+" if it is there)")
	return c
}

// askDaemon asks the daemon at a control socket what it is.
func askDaemon(ctx context.Context, socket string) (doctor.Daemon, error) {
	// gRPC would not tell why it cannot connect.
	c, err := net.DialTimeout("unix", socket, callTimeout)
	if err != nil {
		return doctor.Daemon{}, err
	}
	pid := peerPID(c)
	c.Close()
	s, err := call(ctx, &options{socket: socket, output: "text"}, &adminpb.StatusRequest{}, adminpb.AdminClient.Status)
	if err != nil {
		return doctor.Daemon{}, err
	}
	return doctor.Daemon{Version: s.Version, Up: time.Duration(s.UptimeSeconds) * time.Second, PID: pid}, nil
}

// peerPID is the process at the other end of a unix socket, 0 if it is not known.
func peerPID(c net.Conn) (pid int) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
