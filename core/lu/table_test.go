package lu

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// supported says what a disk answers, independently of the table: opcode, or opcode and service action.
var supported = map[int]bool{
	0x00: true, 0x03: true, 0x08: true, 0x0A: true, 0x12: true, 0x1A: true, 0x25: true, 0x28: true, 0x2A: true,
	0x35: true, 0x5A: true, 0x88: true, 0x8A: true, 0x91: true, 0xA0: true, 0xA8: true, 0xAA: true,
	0x9E10: true, 0xA30C: true,
}

// supportedWith says what a disk with features answers beyond that.
var supportedWith = map[int]features{0x41: featureSame, 0x42: featureUnmap, 0x89: featureCompare, 0x93: featureSame}

func isSupported(f features, op, sa int) (command, opcode bool) {
	switch op {
	case 0x9E, 0xA3:
		return supported[op<<8|sa], true
	}
	command = supported[op] || supportedWith[op]&f != 0
	return command, command
}

// powersFor are powers with which a disk has features; unmap brings WRITE SAME with it.
var powersFor = map[features]backstore.Powers{
	0:                            0,
	featureSame:                  backstore.PowerWriteZeroes,
	featureCompare:               backstore.PowerCompareAndWrite,
	featureUnmap | featureSame:   backstore.PowerUnmap,
	featureSame | featureCompare: backstore.PowerWriteSame | backstore.PowerCompareAndWrite,
	allFeatures:                  everyPower,
}

// eachDisk calls f with a disk of each kind that there can be.
func eachDisk(t *testing.T, f func(t *testing.T, r *rig, k *kind, has features)) {
	for has, powers := range powersFor {
		t.Run(powers.String(), func(t *testing.T) {
			info := testInfo()
			info.Powers = powers
			r := greeted(t, testConfig(), info)
			if r.u.kind() != &disks[has] {
				t.Fatalf("powers %v make another kind of disk", powers)
			}
			f(t, r, &disks[has], has)
		})
	}
}

// Every opcode with every service action: what is not supported is refused, as the operation code if nobody has it, else
// as the service action.
func TestWhatIsNotInTheTableIsRefused(t *testing.T) {
	eachDisk(t, func(t *testing.T, r *rig, _ *kind, has features) {
		for op := range 256 {
			for sa := range 32 {
				cdb := make([]byte, 16)
				cdb[0], cdb[1] = byte(op), byte(sa)
				command, opcode := isSupported(has, op, sa)
				if command {
					continue
				}
				c := r.run(cdb, make([]byte, 512), 512)
				switch {
				case !opcode:
					r.wantSense(c, scsi.InvalidOpcode)
				default:
					r.wantField(c, 1, 4)
				}
				if c.asked != 0 {
					t.Fatalf("% x: asked for a buffer", cdb)
				}
			}
		}
	})
}

func TestTableAgreesWithTheStandardsLengthsAndServiceActions(t *testing.T) {
	for _, k := range []*kind{&disks[0], &disks[allFeatures], &missing, &wellKnown} {
		for i := range k.rows {
			r := &k.rows[i]
			if len(r.Usage) != r.Op.CDBSize() || r.Usage[0] != byte(r.Op) {
				t.Errorf("%v: usage % x", r.Op, r.Usage)
			}
			if r.HasSA != r.Op.HasServiceAction() {
				t.Errorf("%v: service action %v", r.Op, r.HasSA)
			}
			if r.Usage[len(r.Usage)-1] != 0 {
				t.Errorf("%v: evaluates CONTROL %02x", r.Op, r.Usage[len(r.Usage)-1])
			}
			if r.start == nil {
				t.Errorf("%v: no handler", r.Op)
			}
		}
	}
}

// Each bit that the usage mask does not have, set alone, is refused with a pointer at it.
func TestEveryReservedBitIsRefusedAndPointedAt(t *testing.T) {
	eachDisk(t, func(t *testing.T, r *rig, k *kind, _ features) {
		bits := 0
		for i := range k.rows {
			bits += tryReservedBits(r, &k.rows[i])
		}
		if bits < 500 {
			t.Errorf("only %d bits tried", bits)
		}
	})
}

// tryReservedBits returns how many bits of a row's CDB it has tried.
func tryReservedBits(r *rig, row *row) (bits int) {
	for at := 1; at < len(row.Usage); at++ {
		for bit := range 8 {
			mask := row.Usage[at]
			if at == 1 && row.HasSA {
				mask |= 0x1F
			}
			if mask>>bit&1 != 0 {
				continue
			}
			cdb := make([]byte, len(row.Usage))
			cdb[0] = byte(row.Op)
			if row.HasSA {
				cdb[1] = byte(row.SA)
			}
			cdb[at] |= 1 << bit
			r.wantField(r.run(cdb, nil, 0), uint16(at), int8(bit))
			bits++
		}
	}
	return bits
}

// Bytes behind the CDB proper are not looked at: SRP's field has always 16.
func TestBytesBehindTheCDBDoNotMatter(t *testing.T) {
	r := diskRig(t)
	for _, op := range []scsi.Opcode{scsi.OpTestUnitReady, scsi.OpReadCapacity10, scsi.OpRead10, scsi.OpRead12} {
		cdb := make([]byte, 20)
		for i := range cdb {
			if i >= op.CDBSize() {
				cdb[i] = 0xFF
			}
		}
		cdb[0] = byte(op)
		r.wantGood(r.run(cdb, nil, 8))
	}
}

func TestACDBShorterThanPromisedIsAnErrorOfOurs(t *testing.T) {
	r := diskRig(t)
	c := r.make(nil, nil, 0)
	c.CDB = c.CDB[:15]
	r.u.Start(&c.Task)
	r.wantSense(c, scsi.InternalTargetFailure)
}

// reported is REPORT SUPPORTED OPERATION CODES' list as opcode or opcode and service action.
func reported(t *testing.T, list []byte, entry int) map[int]int {
	t.Helper()
	if n := binary.BigEndian.Uint32(list); int(n) != len(list)-4 || int(n)%entry != 0 {
		t.Fatalf("length %d in %d bytes, entries of %d", n, len(list), entry)
	}
	cmds := map[int]int{}
	for d := list[4:]; len(d) > 0; d = d[entry:] {
		key := int(d[0])
		if d[5]&1 != 0 {
			key = key<<8 | int(binary.BigEndian.Uint16(d[2:]))
		}
		cmds[key] = int(binary.BigEndian.Uint16(d[6:]))
	}
	return cmds
}

func TestReportedOperationsAreThoseThatAreExecuted(t *testing.T) {
	eachDisk(t, func(t *testing.T, r *rig, k *kind, has features) {
		list := r.data(scsi.AppendReportOperations(nil, scsi.ReportEvery, 0, 0, 4096), 4096)
		cmds := reported(t, list, 8)
		for op := range 256 {
			for sa := range 32 {
				key := op
				if scsi.Opcode(op).HasServiceAction() {
					key = op<<8 | sa
				}
				want, _ := isSupported(has, op, sa)
				if size, listed := cmds[key]; listed != want || listed && size != scsi.Opcode(op).CDBSize() {
					t.Fatalf("%02x/%02x: listed %v with %d bytes, supported %v", op, sa, listed, size, want)
				}
			}
		}
		if len(cmds) != len(k.rows) || has == 0 && len(cmds) != len(supported) {
			t.Errorf("%d listed of %d rows, %d supported by every disk", len(cmds), len(k.rows), len(supported))
		}
	})
}

func TestReportOneOperation(t *testing.T) {
	read10 := []byte{0, 3, 0, 10, 0x28, 0x18, 255, 255, 255, 255, 0x1F, 255, 255, 0}
	rc16 := []byte{0, 3, 0, 16, 0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0}
	same16 := append([]byte{0, 3, 0, 16, 0x93, 0x09}, bytes.Repeat([]byte{0xFF}, 12)...)
	same16 = append(same16, 0x1F, 0)
	none := []byte{0, 1, 0, 0}
	timeouts := []byte{0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, slow}
	tests := []struct {
		name    string
		options uint8
		op      scsi.Opcode
		sa      uint16
		want    []byte // nil: refused
	}{
		{"by opcode", 1, scsi.OpRead10, 0, read10},
		{"by opcode, service action ignored", 1, scsi.OpRead10, 7, read10},
		{"by opcode, with timeouts", 0x81, scsi.OpRead10, 0, append(append([]byte{0, 0x83}, read10[2:]...), timeouts...)},
		{"by opcode, unsupported", 1, 0xC1, 0, none},
		{"by opcode, which has service actions", 1, scsi.OpServiceActionIn16, 0x10, nil},
		{"by opcode, unsupported with service actions", 1, 0x7F, 9, nil},
		{"by service action", 2, scsi.OpServiceActionIn16, 0x10, rc16},
		{"by service action, unsupported one", 2, scsi.OpServiceActionIn16, 0x12, none},
		{"by service action, too large", 2, scsi.OpServiceActionIn16, 0x110, none},
		{"by service action, opcode has none", 2, scsi.OpRead10, 0, nil},
		{"by service action, unsupported opcode", 2, 0xA4, 0x0A, none},
		{"by either, without", 3, scsi.OpRead10, 0, read10},
		{"by either, with", 3, scsi.OpServiceActionIn16, 0x10, rc16},
		{"by either, service action where there is none", 3, scsi.OpRead10, 1, none},
		{"WRITE SAME(10)", 1, scsi.OpWriteSame10, 0, []byte{0, 3, 0, 10, 0x41, 0x08, 255, 255, 255, 255, 0x1F, 255, 255, 0}},
		{"WRITE SAME(16)", 1, scsi.OpWriteSame16, 0, same16},
		{"UNMAP", 1, scsi.OpUnmap, 0, []byte{0, 3, 0, 10, 0x42, 0, 0, 0, 0, 0, 0x1F, 255, 255, 0}},
		{"COMPARE AND WRITE", 1, scsi.OpCompareAndWrite, 0,
			[]byte{0, 3, 0, 16, 0x89, 0x18, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0x1F, 0}},
		{"by either, unsupported", 3, scsi.OpMaintenanceIn, 0x0A, none},
		{"reserved option 4", 4, scsi.OpRead10, 0, nil},
		{"reserved option 7", 7, scsi.OpRead10, 0, nil},
	}
	info := testInfo()
	info.Powers = everyPower
	r := greeted(t, testConfig(), info)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.run(scsi.AppendReportOperations(nil, tt.options, tt.op, tt.sa, 512), nil, 512)
			if tt.want == nil {
				r.wantField(c, 2, 2)
				return
			}
			r.wantGood(c)
			wantBytes(t, c.in, tt.want)
		})
	}
}

func TestReportWithTimeoutsHasADescriptorForEach(t *testing.T) {
	r := diskRig(t)
	list := r.data(scsi.AppendReportOperations(nil, 0x80, 0, 0, 4096), 4096)
	if cmds := reported(t, list, 20); len(cmds) != len(supported) {
		t.Errorf("%d commands", len(cmds))
	}
	for d := list[4:]; len(d) > 0; d = d[20:] {
		if d[5]&2 == 0 || d[9] != 10 {
			t.Errorf("% x: no timeouts descriptor", d[:20])
		}
	}
}

// usage data of every command leads to a CDB that is not refused for its bits.
func TestUsageDataIsTrue(t *testing.T) {
	eachDisk(t, func(t *testing.T, r *rig, k *kind, _ features) {
		for i := range k.rows {
			row := &k.rows[i]
			one := r.data(scsi.AppendReportOperations(nil, scsi.ReportByEither, row.Op, row.SA, 512), 512)
			usage := one[4:]
			for at := 1; at < len(usage); at++ {
				cdb := make([]byte, len(usage))
				cdb[0] = usage[0]
				if row.HasSA {
					cdb[1] = byte(row.SA)
				}
				cdb[at] |= usage[at]
				c := r.run(cdb, nil, 0)
				if c.Status != scsi.StatusCheckCondition {
					continue
				}
				if s := r.sense(c); s.HasField && int(s.Field.Byte) == at && s.Field.Bit != scsi.NoBit && row.build == nil {
					t.Errorf("%v: bits %02x of byte %d are reported and refused", row.Op, usage[at], at)
				}
			}
		}
	})
}
