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
	protocolMajor   = 1
	channelFD       = 3
	maxMessageBytes = 72 << 20 // a 64 MiB transfer, and room
	// A stream's window must hold several large transfers, or each waits for the acknowledgement of a part.
	streamWindow = 16 << 20
	connWindow   = 64 << 20
)

func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: protocolMajor, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue,
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

func versions(g *glue) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{protocolMajor: {services: g}}
}
