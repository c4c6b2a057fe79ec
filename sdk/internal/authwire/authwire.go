// Package authwire turns the values of sdk/auth into the messages of sdk/proto/auth and back, for both sides. What comes
// in is checked: a message that cannot be a value of the contract is an error.
package authwire

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"github.com/gosrpt/gosrpt/sdk/auth"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
)

// maxInitiators is how many initiators one change names at most.
const maxInitiators = 4096

// LoginMessage is l as a message.
func LoginMessage(l auth.Login) *authpb.Login {
	m := &authpb.Login{
		Initiator: l.Initiator[:], Target: l.Target[:], SourceGid: l.SourceGID[:],
		Device: l.Device, Port: int32(l.Port), Pkey: uint32(l.PKey), Action: uint32(l.Action),
	}
	if l.SourceAddr.IsValid() {
		m.SourceAddr = auth.PlainAddr(l.SourceAddr).AsSlice()
	}
	return m
}

// Login reads a message.
func Login(m *authpb.Login) (auth.Login, error) {
	l := auth.Login{Device: m.GetDevice(), Port: int(m.GetPort()), PKey: uint16(m.GetPkey()), Action: auth.Action(m.GetAction())}
	if m.GetPkey() > math.MaxUint16 || m.GetAction() > math.MaxUint8 {
		return l, fmt.Errorf("authwire: a login with P_Key %d and action %d", m.GetPkey(), m.GetAction())
	}
	for _, f := range []struct {
		to   *auth.ID
		from []byte
	}{{&l.Initiator, m.GetInitiator()}, {&l.Target, m.GetTarget()}, {&l.SourceGID, m.GetSourceGid()}} {
		id, err := identifier(f.from)
		if err != nil {
			return l, err
		}
		*f.to = id
	}
	if b := m.GetSourceAddr(); len(b) > 0 {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return l, fmt.Errorf("authwire: an address of %d bytes", len(b))
		}
		l.SourceAddr = auth.PlainAddr(a)
	}
	return l, nil
}

func identifier(b []byte) (id auth.ID, err error) {
	if len(b) != len(id) {
		return id, fmt.Errorf("authwire: an identifier of %d bytes, not %d", len(b), len(id))
	}
	return auth.ID(b), nil
}

// DecisionMessage is d as a message.
func DecisionMessage(d auth.Decision) *authpb.Decision {
	m := &authpb.Decision{Allow: d.Allow, Reason: d.Reason, AllLuns: d.AllLUNs, ReadOnly: d.ReadOnly,
		Channels: uint32(min(d.Quota.Channels, math.MaxInt32)), QueueDepth: uint32(min(d.Quota.QueueDepth, math.MaxInt32))}
	for _, l := range d.LUNs {
		m.Luns = append(m.Luns, &authpb.Lun{Lun: uint32(l.LUN), Name: l.Name, ReadOnly: l.ReadOnly})
	}
	return m
}

// Decision reads a message. A refusal is what is left of one that is absent.
func Decision(m *authpb.Decision) (auth.Decision, error) {
	if m == nil {
		return auth.Decision{}, fmt.Errorf("authwire: neither a decision nor an error")
	}
	d := auth.Decision{Allow: m.Allow, Reason: m.Reason, AllLUNs: m.AllLuns, ReadOnly: m.ReadOnly,
		Quota: auth.Quota{Channels: int(min(m.Channels, math.MaxInt32)), QueueDepth: int(min(m.QueueDepth, math.MaxInt32))}}
	if len(m.Luns) > auth.MaxLUN+1 {
		return auth.Decision{}, fmt.Errorf("authwire: a decision with %d LUNs", len(m.Luns))
	}
	for _, l := range m.Luns {
		if l.GetLun() > auth.MaxLUN {
			return auth.Decision{}, fmt.Errorf("authwire: LUN %d", l.GetLun())
		}
		d.LUNs = append(d.LUNs, auth.LUN{LUN: uint16(l.GetLun()), Name: l.GetName(), ReadOnly: l.GetReadOnly()})
	}
	if err := d.Validate(); err != nil {
		return auth.Decision{}, err
	}
	return d, nil
}

// ChangeMessage is c as a message. One that is too long, or that breaks the contract, becomes the change that makes the
// host ask about everybody.
func ChangeMessage(c auth.Change) *authpb.WatchResponse {
	if err := c.Validate(); err != nil || len(c.Initiators) > maxInitiators {
		return &authpb.WatchResponse{}
	}
	m := &authpb.WatchResponse{Revoke: c.Revoke, Reason: c.Reason}
	for _, id := range c.Initiators {
		m.Initiators = append(m.Initiators, id[:])
	}
	return m
}

// Change reads a message.
func Change(m *authpb.WatchResponse) (auth.Change, error) {
	c := auth.Change{Revoke: m.GetRevoke(), Reason: m.GetReason()}
	if n := len(m.GetInitiators()); n > maxInitiators {
		return auth.Change{}, fmt.Errorf("authwire: a change that names %d initiators", n)
	}
	for _, b := range m.GetInitiators() {
		id, err := identifier(b)
		if err != nil {
			return auth.Change{}, err
		}
		c.Initiators = append(c.Initiators, id)
	}
	if err := c.Validate(); err != nil {
		return auth.Change{}, err
	}
	return c, nil
}

// Failure is err as a message; nil for nil. The text is the cause's: the code says the rest.
func Failure(err error) *authpb.Error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if e, ok := err.(*auth.Error); ok && e.Err != nil {
		text = e.Err.Error()
	}
	return &authpb.Error{Code: uint32(auth.CodeOf(err)), Text: strings.ToValidUTF8(text, "?")}
}
