// Package ioctxwire turns the values of sdk/ioctx into the messages of sdk/proto/ioctx and back, for both sides. What
// comes in is checked: a message that cannot be a value of the contract is an error.
package ioctxwire

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

// count brings a number that is not in a range of its own into that of a message.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

func number(n uint32) int { return int(min(n, math.MaxInt32)) }

// Numbers is p as a message.
func Numbers(p ioctx.Plan) *ioctxpb.Numbers {
	shared := count(p.SharedReceives)
	return &ioctxpb.Numbers{
		Credits: count(p.Credits), Unsolicited: count(p.Unsolicited), Responses: count(p.Responses), SendWork: count(p.SendWork),
		MaxRequestIu: p.MaxRequestIU, MaxResponseIu: p.MaxResponseIU, MaxImmediateOffset: p.MaxImmediateOffset,
		MaxTransfer: p.MaxTransfer, ArenaSize: p.ArenaSize, MaxWaitNs: uint64(max(p.MaxWait, 0)), SharedReceives: &shared,
	}
}

// Plan reads a message; the plan is in order if the error is nil.
func Plan(m *ioctxpb.Numbers) (ioctx.Plan, error) {
	if m == nil {
		return ioctx.Plan{}, fmt.Errorf("ioctxwire: neither a plan nor an error")
	}
	p := ioctx.Plan{
		Credits: number(m.Credits), Unsolicited: number(m.Unsolicited), Responses: number(m.Responses), SendWork: number(m.SendWork),
		MaxRequestIU: m.MaxRequestIu, MaxResponseIU: m.MaxResponseIu, MaxImmediateOffset: m.MaxImmediateOffset,
		MaxTransfer: m.MaxTransfer, ArenaSize: m.ArenaSize, MaxWait: time.Duration(min(m.MaxWaitNs, math.MaxInt64)),
		SharedReceives: number(m.GetSharedReceives()),
	}
	if err := p.Validate(); err != nil {
		return ioctx.Plan{}, err
	}
	return p, nil
}

// Answer reads the plan of a planner that was asked about s. A number that the planner's SDK does not know is that of s.Default.
func Answer(m *ioctxpb.Numbers, s ioctx.Situation) (ioctx.Plan, error) {
	if m != nil && m.SharedReceives == nil {
		shared := count(s.Default.SharedReceives)
		m.SharedReceives = &shared
	}
	return Plan(m)
}

// SituationMessage is s as a message.
func SituationMessage(s ioctx.Situation) *ioctxpb.Situation {
	m := &ioctxpb.Situation{
		Default: Numbers(s.Default), Channels: count(s.Channels), ChannelsPerNexus: count(s.ChannelsPerNexus), Memory: s.Memory,
	}
	if s.InForce != (ioctx.Plan{}) {
		m.InForce = Numbers(s.InForce)
	}
	for _, d := range s.Devices {
		m.Devices = append(m.Devices, &ioctxpb.Device{Name: d.Name, MaxQueueDepth: count(d.MaxQueueDepth), Mtu: count(d.MTU)})
	}
	for _, u := range s.Units {
		m.Units = append(m.Units, &ioctxpb.Unit{Lun: uint32(u.LUN), Name: u.Name, MaxTransfer: u.MaxTransfer, OptimalTransfer: u.OptimalTransfer})
	}
	return m
}

// Situation reads a message.
func Situation(m *ioctxpb.Situation) (ioctx.Situation, error) {
	s := ioctx.Situation{Channels: number(m.GetChannels()), ChannelsPerNexus: number(m.GetChannelsPerNexus()), Memory: m.GetMemory()}
	var err error
	if s.Default, err = Plan(m.GetDefault()); err != nil {
		return s, fmt.Errorf("the default: %w", err)
	}
	if m.InForce != nil {
		if s.InForce, err = Plan(m.InForce); err != nil {
			return s, fmt.Errorf("the plan in force: %w", err)
		}
	}
	for _, d := range m.Devices {
		s.Devices = append(s.Devices, ioctx.Device{Name: d.GetName(), MaxQueueDepth: number(d.GetMaxQueueDepth()), MTU: number(d.GetMtu())})
	}
	for _, u := range m.Units {
		if u.GetLun() > math.MaxUint16 {
			return s, fmt.Errorf("ioctxwire: LUN %d", u.GetLun())
		}
		s.Units = append(s.Units, ioctx.Unit{LUN: uint16(u.GetLun()), Name: u.GetName(), MaxTransfer: u.GetMaxTransfer(), OptimalTransfer: u.GetOptimalTransfer()})
	}
	return s, nil
}

// PressureMessage is p as a message.
func PressureMessage(p ioctx.Pressure) *ioctxpb.Pressure {
	return &ioctxpb.Pressure{Waited: p.Waited, TimedOut: p.TimedOut, Refused: p.Refused, Channels: count(p.Channels), Arena: p.Arena, ArenaFree: p.ArenaFree}
}

// Pressure reads a message.
func Pressure(m *ioctxpb.Pressure) ioctx.Pressure {
	return ioctx.Pressure{Waited: m.GetWaited(), TimedOut: m.GetTimedOut(), Refused: m.GetRefused(), Channels: number(m.GetChannels()),
		Arena: m.GetArena(), ArenaFree: m.GetArenaFree()}
}

// Failure is err as a message; nil for nil. The text is the cause's: the code says the rest.
func Failure(err error) *ioctxpb.Error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if e, ok := err.(*ioctx.Error); ok && e.Err != nil {
		text = e.Err.Error()
	}
	return &ioctxpb.Error{Code: uint32(ioctx.CodeOf(err)), Text: strings.ToValidUTF8(text, "?")}
}
