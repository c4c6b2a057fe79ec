package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/cmd/srptctl/internal/load"
	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/srp"
)

// benchFlags are the command's own flags.
type benchFlags struct {
	connect, local, idExt, iocGUID, file string
	lun                                  uint32
	channels, depth                      int
	block, size, pattern                 string
	duration                             time.Duration
	verify, overwrite, immediate         bool
}

func benchCommand(o *options) *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use: "bench", Short: "log in as an initiator and measure or verify a LUN", Args: noArgs,
		Long: "Logs in to a target with an initiator of its own, over RoCEv2 in userspace, and keeps a number of\n" +
			"requests outstanding for a time; or, with --verify, writes the whole LUN, reads it back and compares.\n" +
			"Without --connect it asks the daemon at --socket where and who the target is.",
		Example: "  srptctl bench --depth 16 --block 4KiB --pattern randread\n" +
			"  srptctl bench --verify --overwrite --block 64KiB\n" +
			"  srptctl bench --file /var/lib/disk.img --pattern randread",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, o, c.OutOrStdout())
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.connect, "connect", "", "target as ADDRESS:PORT (default: the first that the daemon listens at)")
	fs.StringVar(&f.local, "local", "", "address or interface to log in from (default: the system's choice)")
	fs.StringVar(&f.idExt, "id-ext", "", "target's id_ext, 16 hex digits (default: the daemon's)")
	fs.StringVar(&f.iocGUID, "ioc-guid", "", "target's ioc_guid, 16 hex digits (default: the daemon's)")
	fs.StringVar(&f.file, "file", "", "measure this file or block device directly instead of a LUN")
	fs.Uint32Var(&f.lun, "lun", 0, "LUN to use")
	fs.IntVar(&f.channels, "channels", 2, "channels to log in with")
	fs.IntVar(&f.depth, "depth", 16, "requests outstanding")
	fs.StringVar(&f.block, "block", "4KiB", "length of a request")
	fs.StringVar(&f.size, "size", "", "how much of the LUN to use (default: all)")
	fs.StringVar(&f.pattern, "pattern", "randread", "randread, randwrite, read or write")
	fs.DurationVar(&f.duration, "time", 5*time.Second, "how long to measure")
	fs.BoolVar(&f.verify, "verify", false, "write all of the LUN, read it back and compare")
	fs.BoolVar(&f.overwrite, "overwrite", false, "permit what destroys the data on the LUN")
	fs.BoolVar(&f.immediate, "immediate", true, "ask for immediate data")
	return c
}

// job checks the flags.
func (f *benchFlags) job() (load.Job, error) {
	var j load.Job
	var err error
	if j.Pattern, err = load.ParsePattern(f.pattern); err != nil {
		return j, usageError{fmt.Errorf("--pattern: %w", err)}
	}
	block, err := humanize.ParseBytes(f.block)
	if err != nil || block == 0 || block > 16<<20 {
		return j, usageError{fmt.Errorf("--block %s is not a size of at most 16MiB", f.block)}
	}
	j.Block, j.Depth, j.Time, j.Range = int(block), f.depth, f.duration, 1<<62
	if f.size != "" {
		n, err := humanize.ParseBytes(f.size)
		if err != nil || n > 1<<62 {
			return j, usageError{fmt.Errorf("--size %s is not a size", f.size)}
		}
		j.Range = int64(n)
	}
	if f.depth < 1 || f.depth > 4096 {
		return j, usageError{fmt.Errorf("--depth %d is not in 1..4096", f.depth)}
	}
	if (f.verify || j.Write) && !f.overwrite {
		return j, usageError{fmt.Errorf("this overwrites the data; add --overwrite if that is meant")}
	}
	return j, nil
}

func (f *benchFlags) run(ctx context.Context, o *options, w io.Writer) error {
	job, err := f.job()
	if err != nil {
		return err
	}
	if f.file != "" {
		d, err := load.OpenFile(f.file, f.verify || job.Write)
		if err != nil {
			return err
		}
		defer d.Close()
		return f.measure(ctx, o, w, d, job)
	}
	return f.withUnit(ctx, o, func(u *load.Unit) error { return f.measure(ctx, o, w, u, job) })
}

// withUnit logs in, calls use, and logs out.
func (f *benchFlags) withUnit(ctx context.Context, o *options, use func(*load.Unit) error) error {
	cfg, err := f.target(ctx, o)
	if err != nil {
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "srptctl", Level: hclog.Warn, Output: os.Stderr})
	p := roce.New(roce.Config{Addrs: []netip.Addr{cfg.Local}, Log: log})
	defer p.Close()
	devs, err := p.Devices(ctx)
	if err != nil {
		return err
	}
	if len(devs) == 0 {
		return fmt.Errorf("no network interface has the address %s; name another with --local", cfg.Local)
	}
	cfg.Device, cfg.Logger = devs[0], log
	lun, ok := srp.MakeLUN(f.lun)
	if !ok {
		return usageError{fmt.Errorf("--lun %d is not in 0..16383", f.lun)}
	}
	s, err := initiator.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	u, err := load.NewUnit(ctx, s, lun)
	if err != nil {
		return err
	}
	if err := use(u); err != nil {
		return err
	}
	if err := s.Logout(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return u.Close()
}

// target says whom to log in to.
func (f *benchFlags) target(ctx context.Context, o *options) (initiator.Config, error) {
	cfg := initiator.Config{Channels: f.channels, QueueDepth: max(f.depth, 2), Immediate: f.immediate}
	connect, ext, guid := f.connect, f.idExt, f.iocGUID
	if connect == "" || ext == "" || guid == "" {
		s, err := call(ctx, o, &adminpb.StatusRequest{}, adminpb.AdminClient.Status)
		if err != nil {
			return cfg, fmt.Errorf("who the target is: %w (or give --connect, --id-ext and --ioc-guid)", err)
		}
		ext, guid = orElse(ext, s.IdExt), orElse(guid, s.IocGuid)
		if connect == "" && len(s.Listeners) > 0 {
			connect = s.Listeners[0].Address
		}
	}
	var err error
	if cfg.Remote, err = netip.ParseAddrPort(connect); err != nil {
		return cfg, usageError{fmt.Errorf("--connect %q is not ADDRESS:PORT", connect)}
	}
	if cfg.Local, err = localAddr("--local", f.local, cfg.Remote.Addr()); err != nil {
		return cfg, err
	}
	e, err1 := strconv.ParseUint(ext, 16, 64)
	g, err2 := strconv.ParseUint(guid, 16, 64)
	if err1 != nil || err2 != nil {
		return cfg, usageError{fmt.Errorf("--id-ext and --ioc-guid are 16 hex digits each")}
	}
	cfg.Target = srp.MakePortID(e, g)
	cfg.Initiator = srp.MakePortID(uint64(os.Getpid()), 0x0200_5e00_0000_0000)
	return cfg, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (f *benchFlags) measure(ctx context.Context, o *options, w io.Writer, d load.Device, job load.Job) error {
	if f.verify {
		begin := time.Now()
		bar := newProgress(os.Stderr)
		err := load.Verify(ctx, d, job, uint64(begin.UnixNano()), bar.step)
		bar.end()
		if err != nil {
			return err
		}
		size := min(job.Range, d.Size()) / int64(job.Block) * int64(job.Block)
		return print(o, w, map[string]any{"verified_bytes": size, "seconds": time.Since(begin).Seconds()},
			fmt.Sprintf("verified %s: written, read back and equal, in %s", humanize.IBytes(uint64(size)), time.Since(begin).Round(time.Millisecond)))
	}
	r, err := load.Run(ctx, d, job)
	if err != nil {
		return err
	}
	return print(o, w, r, fmt.Sprintf("%-9s %-7s depth %-3d %s", f.pattern, humanize.IBytes(uint64(job.Block)), job.Depth, r))
}

func print(o *options, w io.Writer, v any, text string) error {
	if o.output == "json" {
		return json.NewEncoder(w).Encode(v)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
