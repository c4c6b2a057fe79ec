package mad

// Discovery asks for everything behind a port: the unit, then the controller in each occupied slot, and its service
// entries in fours. The zero value is ready.
//
//	var d mad.Discovery
//	for q, more := d.Next(); more; q, more = d.Next() {
//		d.Answer(exchange(q)) // sends q.Append, returns what q.Parse says of the answer
//	}
//	unit, err := d.Result()
//
// A controller that cannot be read is kept with the reason, and the others are still asked. However hostile the agent
// is, a discovery is over after 16576 queries: 1, and 65 for each of 255 slots.
type Discovery struct {
	stage stage
	info  IOUnitInfo
	unit  Unit
	err   error
	// slot is the one asked about; want and got count its service entries.
	slot      int
	want, got int
}

type stage uint8

const (
	askUnit stage = iota
	askProfile
	askServices
	finished
)

// Unit is what a discovery has found.
type Unit struct {
	// ChangeID differs from that of an earlier discovery if anything else does.
	ChangeID uint16
	// Slots is how many controllers the unit has room for.
	Slots int
	// Found are the occupied slots, in order.
	Found []Found
}

// Found is an occupied slot.
type Found struct {
	Slot       int
	Controller Controller
	// Err tells why the controller, or some of its services, could not be read.
	Err error
}

// Next is the next query, the same one until it is answered. It returns false when all has been asked.
func (d *Discovery) Next() (Query, bool) {
	switch d.stage {
	case askUnit:
		return GetIOUnitInfo(), true
	case askProfile:
		return GetProfile(uint8(d.slot)), true
	case askServices:
		return GetServices(uint8(d.slot), uint8(d.got), uint8(d.got+d.batch()-1)), true
	}
	return Query{}, false
}

// Answer takes the data of the answer to the query that Next returned, or why there is none. data may be reused.
func (d *Discovery) Answer(data []byte, err error) {
	switch d.stage {
	case askUnit:
		d.takeUnit(data, err)
	case askProfile:
		d.takeProfile(data, err)
	case askServices:
		d.takeServices(data, err)
	}
}

// Result is what has been found so far. The error is why the unit itself could not be read.
func (d *Discovery) Result() (Unit, error) { return d.unit, d.err }

func (d *Discovery) takeUnit(data []byte, err error) {
	if err == nil {
		d.info, err = ParseIOUnitInfo(data)
	}
	if err != nil {
		d.err, d.stage = err, finished
		return
	}
	d.info = append(IOUnitInfo(nil), d.info...)
	d.unit.ChangeID, d.unit.Slots = d.info.ChangeID(), d.info.Slots()
	d.nextSlot()
}

func (d *Discovery) takeProfile(data []byte, err error) {
	var p Profile
	if err == nil {
		p, err = ParseProfile(data)
	}
	if err != nil {
		d.unit.Found = append(d.unit.Found, Found{Slot: d.slot, Err: err})
		d.nextSlot()
		return
	}
	d.unit.Found = append(d.unit.Found, Found{Slot: d.slot, Controller: p.Controller()})
	d.want, d.got, d.stage = p.Services(), 0, askServices
	if d.want == 0 {
		d.nextSlot()
	}
}

func (d *Discovery) takeServices(data []byte, err error) {
	n := d.batch()
	found := &d.unit.Found[len(d.unit.Found)-1]
	var entries ServiceEntries
	if err == nil {
		entries, err = ParseServiceEntries(data, n)
	}
	if err != nil {
		found.Err = err
		d.nextSlot()
		return
	}
	for i := range n {
		found.Controller.Services = append(found.Controller.Services, entries.At(i))
	}
	if d.got += n; d.got == d.want {
		d.nextSlot()
	}
}

// batch is how many service entries the next query asks for.
func (d *Discovery) batch() int { return min(d.want-d.got, ServicesPerQuery) }

// nextSlot goes to the next occupied slot.
func (d *Discovery) nextSlot() {
	for d.slot++; d.slot <= d.unit.Slots; d.slot++ {
		if d.info.Present(d.slot) {
			d.stage = askProfile
			return
		}
	}
	d.stage = finished
}
