package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

// Source is where the control interface gets what it shows. Its methods may be called from any goroutine.
type Source interface {
	Status() *adminpb.StatusReply
	Sessions() *adminpb.SessionsReply
	ConnectInfo() *adminpb.ConnectInfoReply
	// Plugins waits for nothing.
	Plugins() *adminpb.PluginsReply
	Fabric() *adminpb.FabricReply
	// Events returns the events after a number. With follow it waits until there are some, or ctx ends.
	Events(ctx context.Context, after uint64, follow bool) ([]*adminpb.Event, error)
	// UpgradePlugin replaces a plugin's process; ErrNoPlugin if there is none of that name.
	UpgradePlugin(ctx context.Context, name, path string) (*adminpb.UpgradePluginReply, error)
	// Logout ends a session; ErrNoSession if there is none of that number.
	Logout(ctx context.Context, id uint64) error
}

// ErrNoPlugin says that no plugin has the name given.
var ErrNoPlugin = errors.New("no such plugin")

// ErrNoSession says that no session has the number given.
var ErrNoSession = errors.New("no such session")

// Config says where to serve.
type Config struct {
	// Socket is the path of the control socket. Its directory is made if need be; a stale socket is replaced.
	Socket string
	// Metrics is the address of the Prometheus endpoint; empty means none.
	Metrics string
}

// Server serves the control interface.
type Server struct {
	grpc    *grpc.Server
	http    *http.Server
	socket  string
	stopped chan struct{}
	serving int
}

// Serve starts to serve src and returns at once.
func Serve(cfg Config, src Source, log hclog.Logger) (*Server, error) {
	l, err := listenUnix(cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{grpc: grpc.NewServer(), socket: cfg.Socket, stopped: make(chan struct{}, 2)}
	if cfg.Metrics != "" {
		ml, err := net.Listen("tcp", cfg.Metrics)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("metrics endpoint: %w", err)
		}
		s.serveMetrics(ml, src, log)
	}
	adminpb.RegisterAdminServer(s.grpc, &service{src: src})
	s.run(func() error { return s.grpc.Serve(l) }, log.Named("admin"))
	return s, nil
}

func (s *Server) serveMetrics(l net.Listener, src Source, log hclog.Logger) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{src})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	s.run(func() error { return s.http.Serve(l) }, log.Named("metrics"))
}

func (s *Server) run(serve func() error, log hclog.Logger) {
	s.serving++
	go func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("stopped serving", "error", err)
		}
		s.stopped <- struct{}{}
	}()
}

// Close ends serving; calls in progress are cut off. It returns when the server's goroutines have ended.
func (s *Server) Close() error {
	s.grpc.Stop()
	var err error
	if s.http != nil {
		err = s.http.Close()
	}
	for ; s.serving > 0; s.serving-- {
		<-s.stopped
	}
	return err
}

// listenUnix listens at path. A socket that nobody serves any more is removed first; a living one is an error.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s is served by another daemon; stop it, or set admin.socket", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// service adapts a Source to gRPC.
type service struct {
	adminpb.UnimplementedAdminServer
	src Source
}

func (s *service) Status(context.Context, *adminpb.StatusRequest) (*adminpb.StatusReply, error) {
	return s.src.Status(), nil
}

func (s *service) Sessions(context.Context, *adminpb.SessionsRequest) (*adminpb.SessionsReply, error) {
	return s.src.Sessions(), nil
}

func (s *service) ConnectInfo(context.Context, *adminpb.ConnectInfoRequest) (*adminpb.ConnectInfoReply, error) {
	return s.src.ConnectInfo(), nil
}

func (s *service) Plugins(context.Context, *adminpb.PluginsRequest) (*adminpb.PluginsReply, error) {
	return s.src.Plugins(), nil
}

func (s *service) Fabric(context.Context, *adminpb.FabricRequest) (*adminpb.FabricReply, error) {
	return s.src.Fabric(), nil
}

func (s *service) Events(r *adminpb.EventsRequest, out grpc.ServerStreamingServer[adminpb.Event]) error {
	for after := r.After; ; {
		list, err := s.src.Events(out.Context(), after, r.Follow)
		if err != nil {
			return status.Error(codes.Canceled, err.Error())
		}
		for _, ev := range list {
			if err := out.Send(ev); err != nil {
				return err
			}
			after = ev.Seq
		}
		if !r.Follow || len(list) == 0 {
			return nil
		}
	}
}

func (s *service) UpgradePlugin(ctx context.Context, r *adminpb.UpgradePluginRequest) (*adminpb.UpgradePluginReply, error) {
	if r.Path != "" && !filepath.IsAbs(r.Path) {
		return nil, status.Errorf(codes.InvalidArgument, "the path %q is not absolute", r.Path)
	}
	reply, err := s.src.UpgradePlugin(ctx, r.Name, r.Path)
	if errors.Is(err, ErrNoPlugin) {
		return nil, status.Errorf(codes.NotFound, "there is no plugin %q; srptctl plugin list names them", r.Name)
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return reply, nil
}

func (s *service) Logout(ctx context.Context, r *adminpb.LogoutRequest) (*adminpb.LogoutReply, error) {
	err := s.src.Logout(ctx, r.Id)
	if errors.Is(err, ErrNoSession) {
		return nil, status.Errorf(codes.NotFound, "there is no session %d; srptctl sessions lists them", r.Id)
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &adminpb.LogoutReply{}, nil
}
