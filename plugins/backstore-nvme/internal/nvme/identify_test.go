package nvme

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIdentityIsThatOfControllerAndNamespace(t *testing.T) {
	uuid := idDescriptor(typeUUID, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
	tests := []struct {
		name   string
		change func(a *answers)
		want   string
	}{
		{"QEMU", func(*answers) {}, "gosrptnvme/1 eui.5254000000000001"},
		{"no identifiers", func(a *answers) { clear(a.ns[offNGUID:offFormats]); clear(a.descriptors) }, "gosrptnvme/1"},
		{"a list before 1.3", func(a *answers) { a.errs[opIdentify<<8|cnsDescriptors] = statusError(0x4002) }, "gosrptnvme/1 eui.5254000000000001"},
		{"identifiers of the list only", func(a *answers) {
			clear(a.ns[offNGUID:offFormats])
			copy(a.descriptors, append(idDescriptor(99, 1, 2, 3), uuid...))
		}, "gosrptnvme/1 uuid.0102030405060708090a0b0c0d0e0f10"},
		{"NGUID", func(a *answers) { a.ns[offNGUID], a.ns[offNGUID+15], a.nsid = 0xab, 1, 7 }, "gosrptnvme/7 nguid.ab000000000000000000000000000001 eui.5254000000000001"},
		{"a serial number with a line break", func(a *answers) { copy(a.ctrl[offSN:], "a\nb\xff") }, "a?b?ptnvme/1 eui.5254000000000001"},
		{"a serial number that fills its field", func(a *answers) { copy(a.ctrl[offSN:], "01234567890123456789") }, "01234567890123456789/1 eui.5254000000000001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswers(loopBytes)
			tt.change(a)
			if got := a.describe(t).identity.String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatCannotBeAskedIsAnErrorThatSaysWhatToDo(t *testing.T) {
	tests := []struct {
		name  string
		which uint32
		err   error
		want  string
	}{
		{"no NVMe device", 0, unix.ENOTTY, "backstore-file"},
		{"gone", 0, unix.ENODEV, "no such device"},
		{"no right", opIdentify<<8 | cnsController, unix.EACCES, "CAP_SYS_ADMIN"},
		{"no right for the list", opIdentify<<8 | cnsDescriptors, unix.EPERM, "CAP_SYS_ADMIN"},
		{"refused", opIdentify<<8 | cnsNamespace, statusError(0x400b), "Identify Namespace: the controller answers status type 0, code 0bh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswers(loopBytes)
			a.errs[tt.which] = tt.err
			if _, err := a.kernel().describe(-1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestHostileDescriptionsAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(a *answers)
		want   string
	}{
		{"format index beyond the formats", func(a *answers) { a.ns[offFLBAS] = 8 }, "format 8, of formats 0 to 7"},
		{"more formats than can be", func(a *answers) { a.ns[offNLBAF] = 64 }, "65 formats, 64 can be"},
		{"extended index beyond the formats", func(a *answers) { a.ns[offNLBAF], a.ns[offFLBAS] = 31, 0x4f }, "format 47"},
		{"zoned", func(a *answers) { a.descriptors[16] = 2 }, "zoned"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswers(loopBytes)
			tt.change(a)
			if _, err := a.kernel().describe(-1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for n := range 5 {
		b := make([]byte, []int{0, 1, 512, identifySize - 1, identifySize + 1}[n])
		_, e1 := parseController(b)
		_, e2 := parseNamespace(b)
		if e1 == nil || e2 == nil {
			t.Errorf("%d bytes: %v, %v", len(b), e1, e2)
		}
	}
}

func TestFormatIndexHasItsUpperBitsWhereThereAreManyFormats(t *testing.T) {
	a := newAnswers(loopBytes)
	a.ns[offFLBAS] = 0x60 | 0x10 | 3 // 16 or fewer formats: bits 6:5 are reserved, bit 4 is the place of metadata
	if n, err := parseNamespace(a.ns); err != nil || n.formatIndex() != 3 {
		t.Errorf("few: %d, %v", n.formatIndex(), err)
	}
	a.ns[offNLBAF], a.ns[offFLBAS] = 63, 0x60|0x10|3
	if n, err := parseNamespace(a.ns); err != nil || n.formatIndex() != 0x33 {
		t.Errorf("many: %d, %v", n.formatIndex(), err)
	}
}

func TestBrokenListOfIdentifiersIsANotice(t *testing.T) {
	var full []byte // to the last bytes, where a descriptor does not fit any more
	for len(full) < identifySize-10 {
		full = append(full, idDescriptor(99, 1, 2)...)
	}
	full = append(full, 99, 255)
	for name, list := range map[string][]byte{"wrong length": idDescriptor(typeUUID, 1, 2, 3), "beyond the end": full} {
		a := newAnswers(loopBytes)
		clear(a.descriptors)
		copy(a.descriptors, list)
		d := a.describe(t)
		if got := d.notice(); !strings.Contains(got, "list of identifiers is broken") {
			t.Errorf("%s: notice %q", name, got)
		}
		if got := d.identity.String(); got != "gosrptnvme/1 eui."+qemuEUI {
			t.Errorf("%s: identity %s", name, got)
		}
	}
}

func TestIdentityThatDoesNotFitIsNamed(t *testing.T) {
	have := newAnswers(loopBytes).describe(t).identity
	tests := []struct {
		want identity
		say  string
	}{
		{identity{}, ""},
		{identity{serial: "gosrptnvme", nsid: 1}, ""},
		{identity{eui: have.eui}, ""},
		{identity{serial: "other"}, `its serial is "gosrptnvme", want "other"`},
		{identity{nsid: 2}, `its nsid is "1", want "2"`},
		{identity{nguid: [16]byte{1}}, `its nguid is "", want "01000000000000000000000000000000"`},
		{identity{eui: [8]byte{1}}, `its eui is "5254000000000001", want`},
	}
	for _, tt := range tests {
		err := have.fits(tt.want)
		if (err == nil) != (tt.say == "") || err != nil && !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%+v: %v, want %q", tt.want, err, tt.say)
		}
	}
}

func TestUnknownHealthIsANotice(t *testing.T) {
	a := newAnswers(loopBytes)
	a.errs[opGetLogPage<<8|logHealth] = errors.New("not today")
	if got := a.describe(t).notice(); got != "the controller's health is not known: not today" {
		t.Errorf("notice %q", got)
	}
}
