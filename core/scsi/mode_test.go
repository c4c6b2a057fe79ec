package scsi

import (
	"bytes"
	"strings"
	"testing"
)

func testMode() *ModeParams {
	return &ModeParams{Capacity: Capacity{Blocks: 0x80000, BlockSize: 512}, FUA: true, WriteCache: true}
}

const (
	recovery = "01 0a 00 00 00 00 00 00 00 00 00 00 "
	caching  = "08 12 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
	control  = "0a 0a 02 10 00 40 00 00 ff ff 00 00 "
	informal = "1c 0a 00 00 00 00 00 00 00 00 00 00 "
)

func zeroed(page string) string {
	head := page[:5]
	return head + strings.Repeat(" 00", len(strings.Fields(page))-2) + " "
}

func TestModeSenseAnswers(t *testing.T) {
	tests := []struct {
		name string
		cdb  CDB
		want string
	}{
		{"6 all", CDB{0x1A, 0, 0x3F, 0, 255, 0}, "43 00 10 08 00 08 00 00 00 00 02 00" + recovery + caching + control + informal},
		{"6 all without descriptor", CDB{0x1A, 8, 0x3F, 0, 255, 0}, "3b 00 10 00" + recovery + caching + control + informal},
		{"6 all with subpages", CDB{0x1A, 8, 0x3F, 0xFF, 255, 0}, "3b 00 10 00" + recovery + caching + control + informal},
		{"6 caching", CDB{0x1A, 8, 0x08, 0, 255, 0}, "17 00 10 00" + caching},
		{"6 caching with subpages", CDB{0x1A, 8, 0x08, 0xFF, 255, 0}, "17 00 10 00" + caching},
		{"6 caching default", CDB{0x1A, 8, 0x88, 0, 255, 0}, "17 00 10 00" + caching},
		{"6 caching changeable", CDB{0x1A, 8, 0x48, 0, 255, 0}, "17 00 10 00" + zeroed(caching)},
		{"6 control", CDB{0x1A, 8, 0x0A, 0, 255, 0}, "0f 00 10 00" + control},
		{"6 control changeable", CDB{0x1A, 8, 0x4A, 0, 255, 0}, "0f 00 10 00" + zeroed(control)},
		{"10 control", CDB{0x5A, 0, 0x0A, 0, 0, 0, 0, 0, 255, 0}, "00 1a 00 10 00 00 00 08 00 08 00 00 00 00 02 00" + control},
		{"10 without descriptor", CDB{0x5A, 8, 0x1C, 0, 0, 0, 0, 0, 255, 0}, "00 12 00 10 00 00 00 00" + informal},
		{"10 long LBA", CDB{0x5A, 0x10, 0x01, 0, 0, 0, 0, 0, 255, 0},
			"00 22 00 10 01 00 00 10 00 00 00 00 00 08 00 00 00 00 00 00 00 00 02 00" + recovery},
		{"10 long LBA without descriptor", CDB{0x5A, 0x18, 0x01, 0, 0, 0, 0, 0, 255, 0}, "00 12 00 10 00 00 00 00" + recovery},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, sense := testMode().Append(nil, tt.cdb.ModeRequest())
			if !sense.IsZero() {
				t.Fatalf("refused: %+v", sense)
			}
			wantBytes(t, got, unhex(t, tt.want))
		})
	}
}

func TestModeHeaderTellsWriteProtection(t *testing.T) {
	for wp, want := range map[bool]byte{false: 0x10, true: 0x90} {
		p := testMode()
		p.WriteProtected = wp
		six, _ := p.Append(nil, ModeRequest{Page: PageAll})
		ten, _ := p.Append(nil, ModeRequest{Page: PageAll, Ten: true})
		if six[2] != want || ten[3] != want {
			t.Errorf("write protected %v: %02x and %02x, want %02x", wp, six[2], ten[3], want)
		}
	}
}

func TestModeShortDescriptorSaturates(t *testing.T) {
	p := testMode()
	p.Blocks = 1 << 33
	got, _ := p.Append(nil, ModeRequest{Page: PageCaching})
	wantBytes(t, got[4:12], unhex(t, "ff ff ff ff 00 00 02 00"))
}

func TestModeSenseRefusals(t *testing.T) {
	supported := map[uint8]bool{0x01: true, 0x08: true, 0x0A: true, 0x1C: true, 0x3F: true}
	prefix := []byte{1, 2}
	for page := range uint8(64) {
		for subpage := range 256 {
			for control := range uint8(4) {
				r := ModeRequest{Page: page, Subpage: uint8(subpage), Control: control}
				got, sense := testMode().Append(prefix, r)
				sub := subpage == 0 || subpage == 0xFF
				switch {
				case control == 3:
					if sense != (Sense{Code: SavingNotSupported}) {
						t.Fatalf("%+v: %+v", r, sense)
					}
				case !supported[page]:
					if sense != InvalidField(2, 5) {
						t.Fatalf("%+v: %+v", r, sense)
					}
				case !sub:
					if sense != InvalidField(3, NoBit) {
						t.Fatalf("%+v: %+v", r, sense)
					}
				case !sense.IsZero() || len(got) <= len(prefix):
					t.Fatalf("%+v: %+v, %d bytes", r, sense, len(got))
				}
				if !sense.IsZero() && !bytes.Equal(got, prefix) {
					t.Fatalf("%+v: refused, yet % x was built", r, got)
				}
			}
		}
	}
}
