package mad

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Controller is what an I/O controller says of itself (IBTA 16.3.3.4; SRP r16a table B.7).
type Controller struct {
	// GUID identifies the controller, in initiators' words its ioc_guid. No two of a table have the same.
	GUID ib.GUID
	// Vendor is an OUI, 24 bits. Device and DeviceVersion are numbers of the vendor's.
	Vendor        uint32
	Device        uint32
	DeviceVersion uint16
	// SubsystemVendor is an OUI, 24 bits. Subsystem is a number of that vendor's.
	SubsystemVendor uint32
	Subsystem       uint32
	// Protocol is what the controller speaks.
	Protocol Protocol
	// SendDepth is how many requests a connection may have outstanding: for SRP, the credits that a login grants.
	SendDepth uint16
	// ReadDepth is how many RDMA READs the controller has outstanding on a connection at the most.
	ReadDepth uint8
	// SendSize is the longest message that the controller accepts, in bytes. For SRP it has to be the longest
	// initiator-to-target unit that a login accepts: initiators ask for this size, and are refused if it is more. Linux's
	// initiator asks for 8260 bytes whenever it reads 8192 or more: say at least 8260, or at most 8191.
	SendSize uint32
	// TransferSize is the longest RDMA transfer, in bytes; for SRP up to 16 MiB.
	TransferSize uint32
	// Operations is what may pass on a connection.
	Operations Operations
	// ID is shown to operators: up to 63 bytes of printable UTF-8.
	ID string
	// Services are the controller's service entries, up to 255: for SRP one for each target port.
	Services []Service
}

// Protocol is a kind of I/O and the protocol for it.
type Protocol struct {
	Class, Subclass, Protocol, Version uint16
}

// SRP is the protocol of controllers that are SRP targets by r16a (table B.7). Class FF00h instead would mean r10.
var SRP = Protocol{Class: 0x0100, Subclass: 0x609E, Protocol: 0x0108, Version: 1}

// Operations is a set of what may pass between initiator and controller.
type Operations uint8

// The operations. "To" and "From" are seen from the initiator, which reads or sends to the controller.
const (
	OpSendTo Operations = 1 << iota
	OpSendFrom
	OpReadTo
	OpReadFrom
	OpWriteTo
	OpWriteFrom
	OpAtomicTo
	OpAtomicFrom
)

// SRPOperations is what SRP uses: messages both ways, and RDMA by the target.
const SRPOperations = OpSendTo | OpSendFrom | OpReadFrom | OpWriteFrom

// Service is a service entry: a name, and the service id to connect to.
type Service struct {
	// Name is up to 39 bytes of printable ASCII.
	Name string
	// ID is what the connection request names.
	ID uint64
}

// srpPrefix begins the name of an SRP target port's service (SRP r16a table B.8).
const srpPrefix = "SRP.T10:"

// SRPService is the entry of the target port whose id ends in idExt, reached by the service id (SRP r16a table B.8).
func SRPService(idExt, id uint64) Service {
	return Service{Name: fmt.Sprintf("%s%016x", srpPrefix, idExt), ID: id}
}

// IDExt is the target port's id extension, if the service is that of an SRP target. The standard reserves what may follow
// after a colon, and nothing else may follow.
func (s Service) IDExt() (idExt uint64, ok bool) {
	digits, found := strings.CutPrefix(s.Name, srpPrefix)
	digits, _, _ = strings.Cut(digits, ":")
	if !found || len(digits) != 16 {
		return 0, false
	}
	idExt, err := strconv.ParseUint(digits, 16, 64)
	return idExt, err == nil
}

// check finds what keeps the controller from being published.
func (c *Controller) check() error {
	switch {
	case c.GUID == 0:
		return c.bad("has no GUID")
	case c.Vendor > 0xFFFFFF || c.SubsystemVendor > 0xFFFFFF:
		return c.bad("has vendor ids %x, %x; an OUI has 24 bits", c.Vendor, c.SubsystemVendor)
	case c.Protocol == Protocol{}:
		return c.bad("names no protocol")
	case c.Operations == 0:
		return c.bad("permits no operations")
	case c.SendDepth == 0 || c.SendSize == 0:
		return c.bad("accepts %d messages of %d bytes, so that nobody can use it", c.SendDepth, c.SendSize)
	case len(c.ID) >= idSize || !printable(c.ID):
		return c.bad("has the identification %q; it is up to %d bytes of printable UTF-8", c.ID, idSize-1)
	case len(c.Services) > MaxServices:
		return c.bad("has %d services; %d can be published", len(c.Services), MaxServices)
	}
	return c.checkServices()
}

func (c *Controller) checkServices() error {
	seen := make(map[string]bool, len(c.Services))
	for _, s := range c.Services {
		switch {
		case s.Name == "" || len(s.Name) >= nameSize || len(s.Name) != utf8.RuneCountInString(s.Name) || !printable(s.Name):
			return c.bad("has a service %q; a name is 1 to %d printable ASCII characters", s.Name, nameSize-1)
		case seen[s.Name]:
			return c.bad("has two services %q", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

func (c *Controller) bad(format string, args ...any) error {
	return fmt.Errorf("%w: controller %v %s", ErrTable, c.GUID, fmt.Sprintf(format, args...))
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// appendProfile appends the ProfileSize bytes of IOControllerProfile. The numbers of service connections and initiators
// stay 0: SRP does not use them (r16a table B.7).
func (c *Controller) appendProfile(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(c.GUID))
	dst = be.AppendUint32(dst, c.Vendor<<8)
	dst = be.AppendUint32(dst, c.Device)
	dst = be.AppendUint16(dst, c.DeviceVersion)
	dst = append(dst, 0, 0)
	dst = be.AppendUint32(dst, c.SubsystemVendor<<8)
	dst = be.AppendUint32(dst, c.Subsystem)
	dst = be.AppendUint16(dst, c.Protocol.Class)
	dst = be.AppendUint16(dst, c.Protocol.Subclass)
	dst = be.AppendUint16(dst, c.Protocol.Protocol)
	dst = be.AppendUint16(dst, c.Protocol.Version)
	dst = append(dst, 0, 0, 0, 0)
	dst = be.AppendUint16(dst, c.SendDepth)
	dst = append(dst, 0, c.ReadDepth)
	dst = be.AppendUint32(dst, c.SendSize)
	dst = be.AppendUint32(dst, c.TransferSize)
	dst = append(dst, byte(c.Operations), 0, byte(len(c.Services)))
	dst = append(dst, make([]byte, 9)...)
	return appendText(dst, c.ID, idSize)
}

// append appends the ServiceSize bytes of the entry.
func (s Service) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(appendText(dst, s.Name, nameSize), s.ID)
}

// appendText appends s and NULs up to size bytes; s is shorter.
func appendText(dst []byte, s string, size int) []byte {
	return append(append(dst, s...), make([]byte, size-len(s))...)
}
