package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

// callTimeout bounds one call to the daemon.
const callTimeout = 10 * time.Second

// options are the flags that every command has.
type options struct {
	socket, output string
}

func (o *options) check() error {
	if o.output != "text" && o.output != "json" {
		return usageError{fmt.Errorf("--output %s: text or json", o.output)}
	}
	return nil
}

// unreachableError says that the daemon does not answer.
type unreachableError struct {
	socket string
	cause  error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("no daemon answers at %s (%v); is srptd running, and is its admin.socket this one?", e.socket, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// call makes one call to the daemon, which is to answer within callTimeout.
func call[Q, R any](ctx context.Context, o *options, req Q,
	method func(adminpb.AdminClient, context.Context, Q, ...grpc.CallOption) (R, error),
) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return callFor(ctx, o, req, method)
}

// callFor makes one call to the daemon, which ctx bounds.
func callFor[Q, R any](ctx context.Context, o *options, req Q,
	method func(adminpb.AdminClient, context.Context, Q, ...grpc.CallOption) (R, error),
) (R, error) {
	var zero R
	if err := o.check(); err != nil {
		return zero, err
	}
	cc, err := grpc.NewClient("unix:"+o.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return zero, usageError{err}
	}
	defer cc.Close()
	reply, err := method(adminpb.NewAdminClient(cc), ctx, req)
	if s, ok := status.FromError(err); ok && (s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded) {
		return zero, &unreachableError{o.socket, err}
	} else if err != nil {
		return zero, fmt.Errorf("%s", s.Message())
	}
	return reply, nil
}

// show writes reply as JSON, or by text.
func (o *options) show(w io.Writer, reply proto.Message, text func(w io.Writer)) error {
	if o.output == "json" {
		b, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true, EmitUnpopulated: true}.Marshal(reply)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, string(b))
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	text(tw)
	return tw.Flush()
}
