package mad

import "github.com/gosrpt/gosrpt/core/ib"

// Drop is why a datagram gets no answer.
type Drop uint8

// The reasons. DropNone is that of a datagram that is answered.
const (
	DropNone        Drop = iota
	DropShort            // fewer bytes than a datagram has
	DropLong             // more bytes than a datagram has
	DropBaseVersion      // of another base version: its fields may lie elsewhere
	DropClass            // of another class
	DropResponse         // itself a response
	DropOneWay           // a trap or its repression, which are not answered (IBTA 13.4.5)
	// DropReasons is the number of values, for arrays of counters.
	DropReasons
)

var dropNames = [DropReasons]string{"none", "short", "long", "base_version", "class", "response", "one_way"}

// String names the reason as a counter is named.
func (d Drop) String() string {
	if d < DropReasons {
		return dropNames[d]
	}
	return "unknown"
}

// Answer appends the answer to the request, ib.MADSize bytes, to dst. If there is to be none it returns dst as it was,
// and the reason. It allocates nothing if dst has room. dst's room must not overlap request.
func (a *Agent) Answer(dst, request []byte) ([]byte, Drop) {
	if why := accept(request); why != DropNone {
		return dst, why
	}
	m := ib.MAD(request)
	data, status := a.reply(m)
	var blank [DataSize]byte
	start := len(dst)
	dst = append(dst, request[:HeaderSize]...)
	dst = append(dst, data...)
	dst = append(dst, blank[len(data):]...)
	answer := ib.MAD(dst[start:])
	answer.SetMethod(ib.MethodGetResp)
	answer.SetStatus(status)
	return dst, DropNone
}

// accept tells whether the datagram gets an answer.
func accept(b []byte) Drop {
	switch {
	case len(b) < ib.MADSize:
		return DropShort
	case len(b) > ib.MADSize:
		return DropLong
	}
	m := ib.MAD(b)
	switch {
	case m.BaseVersion() != ib.MADBaseVersion:
		return DropBaseVersion
	case m.Class() != ib.ClassDeviceMgmt:
		return DropClass
	case m.Method().IsResponse():
		return DropResponse
	case m.Method() == ib.MethodTrap, m.Method() == ib.MethodTrapRepress:
		return DropOneWay
	}
	return DropNone
}

// reply is the data of the answer, at most DataSize bytes, and its status.
func (a *Agent) reply(m ib.MAD) ([]byte, ib.Status) {
	switch {
	case m.ClassVersion() != ClassVersion:
		return nil, ib.StatusBadVersion
	case m.Method() == ib.MethodGet:
		return a.get(m.AttrID(), m.AttrMod())
	case m.Method() == ib.MethodSet:
		return nil, ib.StatusBadMethodAttr
	}
	return nil, ib.StatusBadMethod
}

func (a *Agent) get(attr uint16, mod uint32) ([]byte, ib.Status) {
	switch attr {
	case AttrClassPortInfo:
		return a.classPortInfo[:], ib.StatusOK
	case AttrIOUnitInfo:
		return a.unit[:], ib.StatusOK
	case AttrIOControllerProfile:
		return a.profile(mod)
	case AttrServiceEntries:
		return a.services(mod>>16, mod>>8&0xFF, mod&0xFF)
	}
	return nil, ib.StatusBadMethodAttr
}

// slot is the controller of a slot.
func (a *Agent) slot(n uint32) (*published, ib.Status) {
	if n == 0 || uint64(n) > uint64(len(a.slots)) {
		return nil, ib.StatusBadAttrValue
	}
	if p := a.slots[n-1]; p != nil {
		return p, ib.StatusOK
	}
	return nil, StatusNoIOC
}

func (a *Agent) profile(slot uint32) ([]byte, ib.Status) {
	p, status := a.slot(slot)
	if p == nil {
		return nil, status
	}
	return p.profile, ib.StatusOK
}

// services is the entries first..last of a slot's controller, at most ServicesPerQuery.
func (a *Agent) services(slot, last, first uint32) ([]byte, ib.Status) {
	p, status := a.slot(slot)
	if p == nil {
		return nil, status
	}
	n := uint32(len(p.services) / ServiceSize)
	switch {
	case n == 0:
		return nil, StatusNoServices
	case first > last || last >= n || last-first >= ServicesPerQuery:
		return nil, ib.StatusBadAttrValue
	}
	return p.services[first*ServiceSize : (last+1)*ServiceSize], ib.StatusOK
}
