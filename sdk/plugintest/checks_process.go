package plugintest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/gosrpt/gosrpt/sdk/host"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

// anyKind are the checks of every kind of plugin.
var anyKind = []check{
	{"started by hand it says so and exits", checkByHand},
	{"the handshake is all that stdout carries", checkNoise},
	{"its health service answers", checkHealthService},
	{"describing itself has no effect and the same answer", checkDescribe},
	{"the declared settings are in order", checkSchema},
	{"a setting that is unknown is refused by name", checkUnknown},
	{"a required setting that is missing is named", checkRequired},
	{"a value that a setting cannot have is refused by name", checkValues},
	{"SIGTERM and SIGINT do not end it", checkSignals},
	{"Shutdown ends it in order within 10 s", checkShutdown},
	{"the end of the host ends it within 10 s", checkHostGone},
}

func checkByHand(r *run) {
	p := &raw{shook: make(chan string, 1), dead: make(chan struct{})}
	if err := p.start(&r.o, nil); err != nil {
		r.Fatal(err)
	}
	r.onAbort(r.TB, p.kill)
	defer p.kill()
	if !p.endsWithin(r.ctx, endTime) {
		r.Fatalf("without a host it does not end within %v", endTime)
	}
	if p.state.Success() {
		r.Error("without a host it exits with status 0")
	}
	if p.stderr() == "" && len(p.printed()) == 0 {
		r.Error("without a host it exits without a word")
	}
}

func checkNoise(r *run) {
	p := r.raw()
	if _, err := r.describe(p.conn); err != nil {
		r.Error(err)
	}
	p.channel.Close()
	if !p.endsWithin(r.ctx, endTime) {
		r.Log("it did not end by itself")
	}
	p.kill()
	<-p.dead
	for _, line := range p.printed() {
		r.Errorf("it prints to descriptor 1: %.80q; a host tolerates that, but stderr is the place for it", line)
	}
}

func checkHealthService(r *run) {
	p := r.raw()
	h, err := grpc_health_v1.NewHealthClient(p.conn).Check(r.within(startTime), &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		r.Errorf("grpc.health.v1.Health says of the service plugin: %v, %v", h.GetStatus(), err)
	}
}

// describe asks a process of any kind.
func (r *run) describe(c grpc.ClientConnInterface) (proto.Message, error) {
	ctx := r.within(startTime)
	switch r.about.Kind {
	case host.KindAuth:
		return authpb.NewAuthorizerClient(c).Describe(ctx, &authpb.DescribeRequest{})
	case host.KindIOCtx:
		return ioctxpb.NewPlannerClient(c).Describe(ctx, &ioctxpb.DescribeRequest{})
	}
	return backstorepb.NewBackstoreClient(c).Describe(ctx, &backstorepb.DescribeRequest{})
}

func checkDescribe(r *run) {
	r.config(r.TB)
	before := r.files()
	p := r.raw()
	first, err := r.describe(p.conn)
	if err != nil {
		r.Fatal(err)
	}
	for range 3 {
		if again, err := r.describe(p.conn); err != nil || !proto.Equal(first, again) {
			r.Fatalf("it says %v and then %v, %v", first, again, err)
		}
	}
	if after := r.files(); !reflect.DeepEqual(before, after) {
		r.Errorf("describing itself changed files: %v, before %v", after, before)
	}
}

// files are the names in the check's directory.
func (r *run) files() []string {
	if r.tmp == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(r.tmp, "*"))
	if err != nil {
		r.Fatal(err)
	}
	return names
}

// tryOpen opens a configuration in a process of its own, and closes it.
func (r *run) tryOpen(config map[string]string) error {
	ctx := r.within(startTime)
	o := r.o.control()
	o.Config = config
	switch r.about.Kind {
	case host.KindAuth:
		a, err := host.StartAuth(ctx, o)
		if err == nil {
			a.Close(ctx)
		}
		return err
	case host.KindIOCtx:
		p, err := host.StartIOCtx(ctx, o)
		if err == nil {
			p.Close(ctx)
		}
		return err
	}
	a, err := host.NewArena(1 << 20)
	if err != nil {
		r.Fatal(err)
	}
	defer a.Close()
	p, err := startProcess(ctx, &r.o, false, a)
	if err != nil {
		r.Fatal(err)
	}
	defer p.end()
	st, err := p.Open(ctx, config)
	if err == nil {
		err = st.Close(ctx)
	}
	return err
}

func checkSignals(r *run) {
	p := r.raw()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := syscall.Kill(p.cmd.Process.Pid, sig); err != nil {
			r.Fatal(err)
		}
		if p.endsWithin(r.ctx, time.Second) {
			r.Fatalf("it ends at %v (%v); a service manager that stops the host sends it to plugins too", sig, p.state)
		}
		if _, err := r.describe(p.conn); err != nil {
			r.Errorf("after %v: %v", sig, err)
		}
	}
}

// opened is a process of any kind that has opened its configuration.
type opened interface {
	Close(context.Context)
	Ending() string
	Kill()
}

func (r *run) opened(config map[string]string) opened {
	r.Helper()
	ctx := r.within(startTime)
	o := r.controlWith(config)
	var p opened
	var err error
	switch r.about.Kind {
	case host.KindAuth:
		p, err = host.StartAuth(ctx, o)
	case host.KindIOCtx:
		p, err = host.StartIOCtx(ctx, o)
	default:
		b := r.start(r.arena())
		_, err = b.Open(ctx, o.Config)
		p = b
	}
	if err != nil {
		r.Fatal(err)
	}
	r.onAbort(r.TB, p.Kill)
	return p
}

func checkShutdown(r *run) {
	p := r.opened(r.config(r.TB))
	begin := time.Now()
	p.Close(r.within(endTime))
	if s := p.Ending(); s != "exit status 0" {
		r.Errorf("%v after Shutdown it had ended with %s, want exit status 0", time.Since(begin).Round(time.Millisecond), s)
	}
}

// checkHostGone closes the host's end of the descriptor channel, as its death does.
func checkHostGone(r *run) {
	config := r.config(r.TB)
	p := r.raw()
	if err := r.openRaw(p.conn, config); err != nil {
		r.Fatal(err)
	}
	p.channel.Close()
	if !p.endsWithin(r.ctx, endTime) {
		r.Fatalf("it does not end within %v of the end of the descriptor channel", endTime)
	}
	if !p.state.Success() {
		r.Errorf("it ended with %v, want status 0: %s", p.state, p.stderr())
	}
	if err := r.tryOpen(config); err != nil {
		r.Errorf("after its end: %v", err)
	}
}

// openRaw opens a configuration over a bare connection.
func (r *run) openRaw(c grpc.ClientConnInterface, config map[string]string) error {
	ctx := r.within(startTime)
	var text string
	var err error
	switch r.about.Kind {
	case host.KindAuth:
		var a *authpb.OpenResponse
		a, err = authpb.NewAuthorizerClient(c).Open(ctx, &authpb.OpenRequest{Config: config})
		text = a.GetError().GetText()
	case host.KindIOCtx:
		var a *ioctxpb.OpenResponse
		a, err = ioctxpb.NewPlannerClient(c).Open(ctx, &ioctxpb.OpenRequest{Config: config})
		text = a.GetError().GetText()
	default:
		var a *backstorepb.OpenResponse
		a, err = backstorepb.NewBackstoreClient(c).Open(ctx, &backstorepb.OpenRequest{Config: config})
		text = a.GetError().GetText()
	}
	if err == nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	return nil
}
