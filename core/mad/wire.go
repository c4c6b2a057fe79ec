package mad

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"

	"github.com/gosrpt/gosrpt/core/ib"
)

// ClassVersion is the only version of the class.
const ClassVersion = 1

// Attributes (IBTA 16.3.3).
const (
	AttrClassPortInfo       = ib.AttrClassPortInfo
	AttrIOUnitInfo          = uint16(0x0010)
	AttrIOControllerProfile = uint16(0x0011)
	AttrServiceEntries      = uint16(0x0012)
)

// Statuses of the class, beyond the common ones (IBTA 16.3).
const (
	// StatusNoIOC: the slot's controller does not respond, or there is none.
	StatusNoIOC ib.Status = 0x0100
	// StatusNoServices: the controller offers no service.
	StatusNoServices ib.Status = 0x0200
	// StatusIOCFailure: the controller has failed.
	StatusIOCFailure ib.Status = 0x8000
)

// Sizes in bytes.
const (
	// HeaderSize is where a datagram's attribute data begins (IBTA 16.3.1).
	HeaderSize = 64
	// DataSize is the room for attribute data.
	DataSize = ib.MADSize - HeaderSize
	// ClassPortInfoSize, IOUnitInfoSize and ProfileSize are the attributes' (IBTA 16.3.3.1, .3, .4).
	ClassPortInfoSize = 72
	IOUnitInfoSize    = 132
	ProfileSize       = 128
	// ServiceSize is that of one service entry (IBTA 16.3.3.5).
	ServiceSize = 48
)

const (
	// MaxSlots is the most slots that an I/O unit can have: their number is a byte.
	MaxSlots = 255
	// MaxServices is the most service entries of a controller, for the same reason.
	MaxServices = 255
	// ServicesPerQuery is the most service entries of one answer.
	ServicesPerQuery = DataSize / ServiceSize
)

const (
	idSize   = 64 // of a controller's identification
	nameSize = 40 // of a service's name
)

// ClassPortInfo is a view of the attribute of that name (IBTA 13.4.8.1, 16.3.3.1).
type ClassPortInfo []byte

// ParseClassPortInfo checks the length. Errors wrap ErrShort.
func ParseClassPortInfo(data []byte) (ClassPortInfo, error) {
	b, err := whole(data, ClassPortInfoSize, "ClassPortInfo")
	return ClassPortInfo(b), err
}

// BaseVersion is the base version that the agent speaks.
func (c ClassPortInfo) BaseVersion() uint8 { return c[0] }

// ClassVersion is the class version that the agent speaks.
func (c ClassPortInfo) ClassVersion() uint8 { return c[1] }

// Capabilities is the mask of what the agent can do.
func (c ClassPortInfo) Capabilities() uint16 { return binary.BigEndian.Uint16(c[2:]) }

// ResponseTime is the exponent of the longest time to an answer: 4.096 us * 2^ResponseTime.
func (c ClassPortInfo) ResponseTime() uint8 { return c[7] & 0x1F }

// IOUnitInfo is a view of the attribute of that name (IBTA 16.3.3.3).
type IOUnitInfo []byte

// ParseIOUnitInfo checks the length. Errors wrap ErrShort.
func ParseIOUnitInfo(data []byte) (IOUnitInfo, error) {
	b, err := whole(data, IOUnitInfoSize, "IOUnitInfo")
	return IOUnitInfo(b), err
}

// ChangeID moves whenever the unit's controllers change.
func (u IOUnitInfo) ChangeID() uint16 { return binary.BigEndian.Uint16(u) }

// Slots is the number of slots, which count from 1.
func (u IOUnitInfo) Slots() int { return int(u[2]) }

// Present tells whether the slot exists and has a controller.
func (u IOUnitInfo) Present(slot int) bool {
	return slot >= 1 && slot <= u.Slots() && u.state(slot) == slotInstalled
}

// slotInstalled is the state of a slot that has a controller; 0 is an empty slot, and Fh none at all.
const slotInstalled = 1

// state is a slot's four bits: the upper ones of the first byte are those of slot 1.
func (u IOUnitInfo) state(slot int) uint8 {
	return u[4+(slot-1)/2] >> (4 * (slot % 2)) & 0xF
}

func (u IOUnitInfo) setState(slot int, v uint8) {
	shift := 4 * (slot % 2)
	b := &u[4+(slot-1)/2]
	*b = *b&^(0xF<<shift) | v<<shift
}

// Profile is a view of IOControllerProfile (IBTA 16.3.3.4).
type Profile []byte

// ParseProfile checks the length. Errors wrap ErrShort.
func ParseProfile(data []byte) (Profile, error) {
	b, err := whole(data, ProfileSize, "IOControllerProfile")
	return Profile(b), err
}

// GUID identifies the controller.
func (p Profile) GUID() ib.GUID { return ib.GUID(binary.BigEndian.Uint64(p)) }

// Vendor is the OUI of the controller's vendor.
func (p Profile) Vendor() uint32 { return binary.BigEndian.Uint32(p[8:]) >> 8 }

// Device is the vendor's number of the device.
func (p Profile) Device() uint32 { return binary.BigEndian.Uint32(p[12:]) }

// DeviceVersion is the vendor's version of the device.
func (p Profile) DeviceVersion() uint16 { return binary.BigEndian.Uint16(p[16:]) }

// SubsystemVendor is the OUI of the subsystem's vendor.
func (p Profile) SubsystemVendor() uint32 { return binary.BigEndian.Uint32(p[20:]) >> 8 }

// Subsystem is its vendor's number of the subsystem.
func (p Profile) Subsystem() uint32 { return binary.BigEndian.Uint32(p[24:]) }

// Protocol is what the controller speaks.
func (p Profile) Protocol() Protocol {
	return Protocol{Class: binary.BigEndian.Uint16(p[28:]), Subclass: binary.BigEndian.Uint16(p[30:]),
		Protocol: binary.BigEndian.Uint16(p[32:]), Version: binary.BigEndian.Uint16(p[34:])}
}

// SendDepth is how many messages the controller can have received and not yet dealt with, per connection.
func (p Profile) SendDepth() uint16 { return binary.BigEndian.Uint16(p[40:]) }

// ReadDepth is how many RDMA READs the controller can have outstanding.
func (p Profile) ReadDepth() uint8 { return p[43] }

// SendSize is the longest message that the controller receives, in bytes.
func (p Profile) SendSize() uint32 { return binary.BigEndian.Uint32(p[44:]) }

// TransferSize is the longest RDMA transfer of the controller, in bytes.
func (p Profile) TransferSize() uint32 { return binary.BigEndian.Uint32(p[48:]) }

// Operations is the set of what passes between initiator and controller.
func (p Profile) Operations() Operations { return Operations(p[52]) }

// Services is the number of service entries.
func (p Profile) Services() int { return int(p[54]) }

// ID is the identification up to its first NUL. What does not print is replaced by '?', for the peer chose it.
func (p Profile) ID() string { return text(p[64:ProfileSize]) }

// Controller is the profile as values, without the service entries.
func (p Profile) Controller() Controller {
	return Controller{GUID: p.GUID(), Vendor: p.Vendor(), Device: p.Device(), DeviceVersion: p.DeviceVersion(),
		SubsystemVendor: p.SubsystemVendor(), Subsystem: p.Subsystem(), Protocol: p.Protocol(), SendDepth: p.SendDepth(),
		ReadDepth: p.ReadDepth(), SendSize: p.SendSize(), TransferSize: p.TransferSize(), Operations: p.Operations(), ID: p.ID()}
}

// ServiceEntries is a view of the attribute of that name (IBTA 16.3.3.5).
type ServiceEntries []byte

// ParseServiceEntries checks that data holds n entries. Errors wrap ErrShort.
func ParseServiceEntries(data []byte, n int) (ServiceEntries, error) {
	if n < 0 || n > ServicesPerQuery {
		return nil, fmt.Errorf("%d ServiceEntries: %w, an answer holds 0 to %d", n, ErrShort, ServicesPerQuery)
	}
	b, err := whole(data, n*ServiceSize, "ServiceEntries")
	return ServiceEntries(b), err
}

// Len is the number of entries.
func (e ServiceEntries) Len() int { return len(e) / ServiceSize }

// At is entry i of 0..Len()-1. What does not print in its name is replaced by '?'.
func (e ServiceEntries) At(i int) Service {
	b := e[i*ServiceSize:][:ServiceSize]
	return Service{Name: text(b[:nameSize]), ID: binary.BigEndian.Uint64(b[nameSize:])}
}

// whole is the first size bytes of data.
func whole(data []byte, size int, name string) ([]byte, error) {
	if len(data) < size {
		return nil, fmt.Errorf("%s of %d bytes: %w, it has %d", name, len(data), ErrShort, size)
	}
	return data[:size:size], nil
}

// text is a NUL-padded field, fit for a terminal.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
