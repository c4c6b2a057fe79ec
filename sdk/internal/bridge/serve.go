package bridge

import (
	"fmt"
	"os"
	"strconv"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Serve answers a host until it says Shutdown. If the process was not started by a host, Serve says so on
// stderr and exits the process.
func Serve(s backstorepb.BackstoreServer) {
	ServeServices(func(r grpc.ServiceRegistrar) { backstorepb.RegisterBackstoreServer(r, s) })
}

// ServeServices is Serve for the services that register registers, which is called once.
func ServeServices(register func(grpc.ServiceRegistrar)) {
	ServeMajors(map[int]func(grpc.ServiceRegistrar){currentMajor: register})
}

// ServeMajors is ServeServices for several major versions of the protocol: the services of the newest one that the host
// speaks too are served.
func ServeMajors(majors map[int]func(grpc.ServiceRegistrar)) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(majors),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
				grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow))...)
		},
	})
}

// Channel opens the descriptor channel that the host gave this process; nil without an error if it gave none.
func Channel() (*shm.Channel, error) {
	v := os.Getenv(ChannelEnv)
	if v == "" {
		return nil, nil
	}
	fd, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("bridge: %s=%q is not a descriptor: %w", ChannelEnv, v, err)
	}
	return shm.OpenChannel(os.NewFile(uintptr(fd), "descriptor channel"))
}
