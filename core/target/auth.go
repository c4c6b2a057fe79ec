package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// ErrDenied is wrapped by an Authorizer's error if the initiator may not log in; any other error
// means that the Authorizer could not tell.
var ErrDenied = errors.New("initiator is not permitted")

// Login is a login that has passed the checks of the protocol.
type Login struct {
	// Initiator and Target are the port identifiers. Neither is authenticated.
	Initiator, Target srp.PortID
	// Info describes the connection.
	Info rdma.ConnInfo
	// Action is what it wants done with the channels that its nexus has.
	Action srp.MultiChannelAction
}

// Authorizer decides who may log in. It is called from several goroutines at once.
type Authorizer interface {
	// Authorize returns what the initiator is permitted, or why it is not. ctx ends when the login's
	// time is up.
	Authorize(ctx context.Context, l Login) (Grant, error)
}

// AllowList permits the initiators that it names, each in one of the spellings that tools and logs
// print: the 32 hexadecimal digits of the initiator port id, with or without 0x or colons; its GUID
// half as xxxx:xxxx:xxxx:xxxx; or the source IP address, the source GID where there is none.
type AllowList map[string]Grant

// NewAllowList makes a list that permits everything to the initiators named. An error names the
// entry that cannot be read.
func NewAllowList(names []string) (AllowList, error) {
	list := make(AllowList, len(names))
	for _, n := range names {
		key, err := allowKey(n)
		if err != nil {
			return nil, err
		}
		list[key] = Grant{}
	}
	return list, nil
}

// Authorize looks the initiator up by each of its names.
func (a AllowList) Authorize(_ context.Context, l Login) (Grant, error) {
	for _, name := range []string{idKey(l.Initiator), guidKey(l.Initiator), sourceKey(&l.Info)} {
		if g, ok := a[name]; ok {
			return g, nil
		}
	}
	return Grant{}, fmt.Errorf("%w: %v from %s is not in the list", ErrDenied, l.Initiator, l.Info.RemoteName())
}

func idKey(id srp.PortID) string   { return strings.TrimPrefix(id.String(), "0x") }
func guidKey(id srp.PortID) string { return "guid " + idKey(id)[16:] }
