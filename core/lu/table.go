package lu

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/gosrpt/gosrpt/core/scsi"
)

// row is one command: what it is, and who does it.
type row struct {
	scsi.Command
	// start begins the command. It finishes the task, or asks the Host or the store for something.
	start func(u *Unit, t *Task)
	// ready goes on after Unit.DataReady.
	ready func(u *Unit, t *Task)
	// stored goes on after the store has done its part without an error.
	stored func(u *Unit, t *Task)
	// build appends the parameter data of a command that startAnswer and readyAnswer serve. It changes nothing.
	build func(u *Unit, t *Task, b []byte) ([]byte, scsi.Sense)

	// deny are the CDB's bits that the usage mask does not have, as two big-endian halves.
	deny [2]uint64
}

// Recommended command timeouts in seconds: for what goes to the store, whose own deadlines are shorter, and what does not.
const (
	slow  = 60
	quick = 10
)

// kind is a type of logical unit.
type kind struct {
	rows []row
	// index finds a row by opcode; actions continues it for opcodes with service actions.
	index   [256]*row
	actions map[uint16]*row
	// peripheral is byte 0 of INQUIRY data, and pages the VPD pages in ascending order.
	peripheral byte
	pages      []uint8
	// refusal is the sense for an opcode without a row, and what REQUEST SENSE tells if there is no more.
	refusal, condition scsi.SenseCode
	// attentions tells whether unit attentions are reported.
	attentions bool
}

// The kinds of logical unit.
var (
	disks   = diskKinds()
	missing = newKind(kind{
		rows: missingRows(), peripheral: scsi.PeripheralNone, refusal: scsi.LUNNotSupported, condition: scsi.LUNNotSupported,
		pages: []uint8{scsi.VPDSupported},
	})
	wellKnown = newKind(kind{
		rows: wellKnownRows(), peripheral: scsi.PeripheralWellKnown, refusal: scsi.InvalidOpcode,
		pages: []uint8{scsi.VPDSupported, scsi.VPDIdentification},
	})
)

// diskKinds are the kinds of disk, by their features.
func diskKinds() (kinds [allFeatures + 1]kind) {
	for f := range kinds {
		kinds[f] = newKind(kind{
			rows: diskRows(features(f)), peripheral: scsi.PeripheralDisk, refusal: scsi.InvalidOpcode, attentions: true,
			pages: []uint8{scsi.VPDSupported, scsi.VPDSerial, scsi.VPDIdentification, scsi.VPDExtended,
				scsi.VPDBlockLimits, scsi.VPDCharacteristics, scsi.VPDProvisioning},
		})
	}
	return kinds
}

// diskRows are the commands of a disk, in the order in which they are reported: that of their codes.
func diskRows(f features) []row {
	rows := append(everyDiskRows(), featureRows(f)...)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Op, b.Op) })
	return rows
}

// featureRows are the commands of a disk that depend on its store. Nothing can be anchored, so ANCHOR is refused; so is the UNMAP
// bit where nothing can be unmapped.
func featureRows(f features) (rows []row) {
	mayUnmap := byte(0)
	if f.has(featureUnmap) {
		mayUnmap = scsi.FlagUNMAP
		rows = append(rows, makeRow(row{start: startUnmap, ready: readyUnmap, stored: (*Unit).stepUnmap}, scsi.OpUnmap, slow,
			[]byte{0, 0, 0, 0, 0, 0x1F, 0xFF, 0xFF, 0}))
	}
	if f.has(featureSame) {
		rows = append(rows,
			same(scsi.OpWriteSame10, mayUnmap, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0),
			same(scsi.OpWriteSame16, mayUnmap|scsi.FlagNDOB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0))
	}
	if f.has(featureCompare) {
		rows = append(rows, makeRow(row{start: startCompare, ready: readyCompare, stored: storedWrite}, scsi.OpCompareAndWrite, slow,
			[]byte{0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0x1F, 0}))
	}
	return rows
}

// everyDiskRows are the commands of every disk.
func everyDiskRows() []row {
	return []row{
		testUnitReadyRow(),
		requestSenseRow(),
		read(scsi.OpRead6, 0x1F, 0xFF, 0xFF, 0xFF, 0),
		write(scsi.OpWrite6, 0x1F, 0xFF, 0xFF, 0xFF, 0),
		inquiryRow(),
		answer(scsi.OpModeSense6, buildModeSense, 0x08, 0xFF, 0xFF, 0xFF, 0),
		answer(scsi.OpReadCapacity10, buildReadCapacity10, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		read(scsi.OpRead10, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0),
		write(scsi.OpWrite10, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0),
		synchronize(scsi.OpSynchronizeCache10, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0),
		answer(scsi.OpModeSense10, buildModeSense, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0),
		read(scsi.OpRead16, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0),
		write(scsi.OpWrite16, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0),
		synchronize(scsi.OpSynchronizeCache16, 0x02, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0),
		answer(scsi.OpServiceActionIn16, buildReadCapacity16, scsi.SAReadCapacity16, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0),
		reportLUNsRow(),
		reportOperationsRow(),
		read(scsi.OpRead12, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0),
		write(scsi.OpWrite12, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0),
	}
}

// missingRows are what a target answers where there is no logical unit (SPC-4 6.4.1, 6.33, 6.39).
func missingRows() []row {
	return []row{requestSenseRow(), inquiryRow(), reportLUNsRow()}
}

// wellKnownRows are the commands of the REPORT LUNS well known logical unit (SPC-4 8.2).
func wellKnownRows() []row {
	return []row{testUnitReadyRow(), requestSenseRow(), inquiryRow(), reportLUNsRow(), reportOperationsRow()}
}

func testUnitReadyRow() row {
	return makeRow(row{start: testUnitReady}, scsi.OpTestUnitReady, quick, []byte{0, 0, 0, 0, 0})
}

func requestSenseRow() row {
	return makeRow(row{start: startRequestSense, ready: readyRequestSense}, scsi.OpRequestSense, quick, []byte{0x01, 0, 0, 0xFF, 0})
}

func inquiryRow() row {
	return answer(scsi.OpInquiry, buildInquiry, 0x01, 0xFF, 0xFF, 0xFF, 0)
}

func reportLUNsRow() row {
	r := answer(scsi.OpReportLUNs, buildReportLUNs, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0)
	r.ready = readyReportLUNs
	return r
}

func reportOperationsRow() row {
	return answer(scsi.OpMaintenanceIn, buildReportOperations, scsi.SAReportOperations, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0)
}

// answer is a command that returns parameter data. Mask is the usage mask from byte 1 on.
func answer(op scsi.Opcode, build func(*Unit, *Task, []byte) ([]byte, scsi.Sense), mask ...byte) row {
	return makeRow(row{start: startAnswer, ready: readyAnswer, build: build}, op, quick, mask)
}

func read(op scsi.Opcode, mask ...byte) row {
	return makeRow(row{start: startRead, ready: readyRead, stored: storedRead}, op, slow, mask)
}

func write(op scsi.Opcode, mask ...byte) row {
	return makeRow(row{start: startWrite, ready: readyWrite, stored: storedWrite}, op, slow, mask)
}

func same(op scsi.Opcode, mask ...byte) row {
	return makeRow(row{start: startSame, ready: readySame, stored: storedSame}, op, slow, mask)
}

func synchronize(op scsi.Opcode, mask ...byte) row {
	return makeRow(row{start: startSynchronize, stored: storedSynchronize}, op, slow, mask)
}

func makeRow(r row, op scsi.Opcode, timeout uint32, mask []byte) row {
	r.Op, r.Recommended = op, timeout
	r.Usage = append([]byte{byte(op)}, mask...)
	if r.HasSA = op.HasServiceAction(); r.HasSA {
		r.SA = uint16(mask[0] & 0x1F)
	}
	deny := [scsi.MaxCDB]byte{}
	for i := 1; i < len(r.Usage); i++ {
		deny[i] = ^r.Usage[i]
	}
	if r.HasSA {
		deny[1] &= 0xE0 // the service action has found the row
	}
	r.deny = [2]uint64{binary.BigEndian.Uint64(deny[:8]), binary.BigEndian.Uint64(deny[8:])}
	return r
}

func newKind(k kind) kind {
	k.actions = map[uint16]*row{}
	for i := range k.rows {
		r := &k.rows[i]
		k.index[r.Op] = r
		if r.HasSA {
			k.actions[actionKey(r.Op, r.SA)] = r
		}
	}
	return k
}

func actionKey(op scsi.Opcode, sa uint16) uint16 { return uint16(op)<<8 | sa&0xFF }

// find returns the row of a CDB of MaxCDB bytes or more, or the sense that refuses it.
func (k *kind) find(cdb []byte) (*row, scsi.Sense) {
	r := k.index[cdb[0]]
	if r == nil {
		return nil, scsi.Sense{Code: k.refusal}
	}
	if r.HasSA {
		if r = k.actions[actionKey(r.Op, uint16(cdb[1]&0x1F))]; r == nil {
			return nil, scsi.InvalidField(1, 4)
		}
	}
	if binary.BigEndian.Uint64(cdb[:8])&r.deny[0]|binary.BigEndian.Uint64(cdb[8:16])&r.deny[1] != 0 {
		return nil, r.deniedField(cdb)
	}
	return r, scsi.Sense{}
}

// deniedField points at the first bit that the usage mask does not have.
func (r *row) deniedField(cdb []byte) scsi.Sense {
	word, base := binary.BigEndian.Uint64(cdb[:8])&r.deny[0], 0
	if word == 0 {
		word, base = binary.BigEndian.Uint64(cdb[8:16])&r.deny[1], 8
	}
	n := bits.LeadingZeros64(word)
	return scsi.InvalidField(uint16(base+n/8), int8(7-n%8))
}
