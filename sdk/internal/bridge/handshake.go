package bridge

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Names that both sides know. The cookie keeps an operator from starting a plugin by hand; it is no secret.
const (
	cookieKey   = "GOSRPT_PLUGIN"
	cookieValue = "1c9f7a52"
	// ChannelEnv holds the number of the inherited descriptor channel.
	ChannelEnv = "GOSRPT_CHANNEL_FD"

	// services is go-plugin's name of what a plugin serves; it never travels. Describe tells one kind of plugin from another.
	services        = "services"
	currentMajor    = 1
	channelFD       = 3
	maxMessageBytes = 72 << 20 // a 64 MiB transfer, and room
	// A stream's window must hold several large transfers, or each waits for the acknowledgement of a part.
	streamWindow = 16 << 20
	connWindow   = 64 << 20
)

// Majors are the major versions of the protocol that this SDK speaks, on both sides: the current one and the one before. There
// is none before the first.
func Majors() []int { return []int{currentMajor} }

func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: currentMajor, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue,
	}
}

// glue is the plugin set's one member on both sides.
type glue struct {
	plugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

func (g *glue) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if g.register == nil {
		return errors.New("bridge: the host's side cannot serve")
	}
	g.register(s)
	return nil
}

func (g *glue) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// versions is the plugin set of each major version. A host's members register nothing.
func versions(majors map[int]func(grpc.ServiceRegistrar)) map[int]plugin.PluginSet {
	v := make(map[int]plugin.PluginSet, len(majors))
	for m, register := range majors {
		v[m] = plugin.PluginSet{services: &glue{register: register}}
	}
	return v
}

// spoken is what versions takes on the host's side.
func spoken(majors []int) map[int]func(grpc.ServiceRegistrar) {
	v := make(map[int]func(grpc.ServiceRegistrar), len(majors))
	for _, m := range majors {
		v[m] = nil
	}
	return v
}
