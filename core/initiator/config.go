package initiator

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Config says whom to log in to, and how.
type Config struct {
	// Device is where the connection leaves. Local is its address to use; if invalid, the device
	// chooses.
	Device rdma.Device
	Local  netip.Addr
	// Remote is the target's address and RDMA/CM port.
	Remote netip.AddrPort
	// Service, if it has an ID, is the target's InfiniBand service in place of Remote. The login has the form of 64 bytes then.
	Service rdma.Service
	// Initiator and Target are the port identifiers that make the I_T nexus.
	Initiator, Target srp.PortID
	// Channels is how many connections to log in with: 1 if 0. If the target refuses a channel
	// but the first, the session makes do with those before it.
	Channels int
	// QueueDepth is how many commands a channel has outstanding at most: 62 if 0.
	QueueDepth int
	// IULen is the longest information unit to ask for, in bytes: 8260 with Immediate, else 276.
	IULen uint32
	// Immediate asks for immediate data.
	Immediate bool
	// ListEntries is how many descriptors a unit carries at most: as many as it has room for, up to 255, if 0.
	ListEntries int
	// TableEntries permits indirect tables of up to so many descriptors, of which the target reads from this side's
	// memory what the unit does not carry. 0 permits none beyond the unit.
	TableEntries int
	// Reports asks to be told of asynchronous events; see Event.
	Reports bool
	// Event, if not nil, is called for each of them in the session's goroutine. It must not block; sense is valid
	// until it returns.
	Event func(lun srp.LUN, sense []byte)
	// CQIndex and CQCount are passed on in rdma.CQConfig.
	CQIndex, CQCount int
	// Timeout bounds the login of one channel: 5 s if 0.
	Timeout time.Duration
	// Logger gets what the target says unasked; may be nil.
	Logger hclog.Logger
}

const (
	// immediateOffset leaves room for a 32-byte CDB and the descriptor before immediate data.
	immediateOffset = srp.CmdLen + 16 + srp.ImmediateLen
	// immediateRoom is the most immediate data that is asked for by default.
	immediateRoom = 8192
	// listRoom is how many descriptors the default unit has room for.
	listRoom = 12

	defaultDepth   = 62
	defaultTimeout = 5 * time.Second
	// maxIULen bounds what a configuration or a target can make a session allocate for a unit.
	maxIULen = 1 << 20
	// maxTable bounds Config.TableEntries.
	maxTable = 1 << 16
	// maxDepth is what the tag has room for.
	maxDepth = 1 << 14
)

func (c Config) withDefaults() Config {
	c.Channels = max(c.Channels, 1)
	if c.QueueDepth == 0 {
		c.QueueDepth = defaultDepth
	}
	if c.IULen == 0 {
		c.IULen = srp.CmdLen + 16 + srp.IndirectLen + listRoom*srp.DescLen
		if c.Immediate {
			c.IULen = immediateOffset + immediateRoom
		}
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.ListEntries == 0 {
		c.ListEntries = maxList
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// service is what to connect to.
func (c *Config) service() rdma.Service {
	if c.Service.ID != 0 {
		return c.Service
	}
	return rdma.Service{Addr: c.Remote}
}

func (c *Config) validate() error {
	switch {
	case c.Device == nil:
		return fmt.Errorf("%w: no device", ErrInvalid)
	case c.Service.ID != 0 && c.Remote != netip.AddrPort{}:
		return fmt.Errorf("%w: the target is named by %v and by %v", ErrInvalid, c.Service, c.Remote)
	case c.Service.ID == 0 && (!c.Remote.IsValid() || c.Remote.Port() == 0):
		return fmt.Errorf("%w: the target's address %v is incomplete", ErrInvalid, c.Remote)
	case c.QueueDepth < 1 || c.QueueDepth > maxDepth:
		return fmt.Errorf("%w: queue depth %d is not within 1..%d", ErrInvalid, c.QueueDepth, maxDepth)
	case c.IULen < srp.MinITIU || c.IULen > maxIULen:
		return fmt.Errorf("%w: information unit length %d is not within %d..%d", ErrInvalid, c.IULen, srp.MinITIU, maxIULen)
	case c.ListEntries < 1 || c.ListEntries > maxList:
		return fmt.Errorf("%w: %d descriptors in a unit are not within 1..%d", ErrInvalid, c.ListEntries, maxList)
	case c.TableEntries < 0 || c.TableEntries > maxTable:
		return fmt.Errorf("%w: %d descriptors in a table are not within 0..%d", ErrInvalid, c.TableEntries, maxTable)
	case sendSlots(c.QueueDepth) > c.Device.Attr().MaxQPWork:
		return fmt.Errorf("%w: queue depth %d is more than %s can hold", ErrInvalid, c.QueueDepth, c.Device.Name())
	}
	return nil
}

// loginRequest is the request of a channel.
func (c *Config) loginRequest(index int) srp.LoginReq {
	req := srp.LoginReq{Tag: srp.Tag(index), MaxITIU: c.IULen, Formats: srp.FormatsDirect | srp.FormatsIndirect,
		Initiator: c.Initiator, Target: c.Target}
	if index > 0 {
		req.Flags = srp.LoginFlags(srp.ActionMulti)
	}
	if c.Reports {
		req.Flags |= srp.LoginAerSolNot
	}
	if c.Immediate {
		req.Flags |= srp.LoginImmediate
		req.ImmediateOffset = immediateOffset
	}
	return req
}
