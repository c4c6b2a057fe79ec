package initiator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// reply makes a target that answers every command with data, and keeps the CDBs.
func reply(b *bed, data []byte) (cdbs *[][16]byte) {
	cdbs = new([][16]byte)
	mem, err := b.b.Register(append([]byte{0}, data...), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.command = func(c *conn, cmd *srp.Cmd) {
		*cdbs = append(*cdbs, [16]byte(cmd.CDB()))
		n := min(uint64(cmd.DataIn().Len()), uint64(len(data)))
		if n > 0 {
			d := cmd.DataIn().At(0)
			c.work = append(c.work[:0], rdma.Work{Op: rdma.OpWrite, RemoteAddr: d.Addr, RKey: d.Key,
				SGL: []rdma.SGE{{Region: mem, Off: 1, Len: n}}})
			c.post()
		}
		c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1, In: srp.Residual(uint64(cmd.DataIn().Len()) - n)})
	}
	return cdbs
}

func TestInquiryReturnsWhatCame(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		data := noise(66)
		cdbs := reply(b, data)
		s := b.dial()
		if got, err := s.Inquiry(t.Context(), lun(0)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Inquiry: %x, %v", got, err)
		}
		if got, err := s.VPD(t.Context(), lun(0), 0x83); err != nil || !bytes.Equal(got, data) {
			t.Errorf("VPD: %x, %v", got, err)
		}
		want := [][16]byte{{0x12, 0, 0, 0, 252}, {0x12, 1, 0x83, 0, 252}}
		if !slices.Equal(*cdbs, want) {
			t.Errorf("CDBs %x, want %x", *cdbs, want)
		}
	})
}

func TestReportLUNsReadsTheList(t *testing.T) {
	list := []srp.LUN{lun(0), lun(7), {0x41, 0x2C}}
	data := binary.BigEndian.AppendUint32(nil, 24)
	data = append(data, 0, 0, 0, 0)
	for _, l := range list {
		data = append(data, l[:]...)
	}
	rows := []struct {
		name string
		data []byte
		want []srp.LUN
		err  error
	}{
		{"as it should be", data, list, nil},
		{"longer than what came", append([]byte{0xFF, 0xFF, 0xFF, 0xF8}, data[4:]...), list, nil},
		{"half a number", data[:len(data)-3], list[:2], nil},
		{"empty", make([]byte, 8), []srp.LUN{}, nil},
		{"no header", make([]byte, 7), nil, ErrProtocol},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				reply(b, row.data)
				got, err := b.dial().ReportLUNs(t.Context())
				if !errors.Is(err, row.err) || !slices.Equal(got, row.want) {
					t.Errorf("ReportLUNs: %v, %v; want %v, %v", got, err, row.want, row.err)
				}
			})
		})
	}
}

func TestReadCapacityReadsTheSize(t *testing.T) {
	capacity := func(last uint64, size uint32) []byte {
		b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, last), size)
		return append(b, make([]byte, 20)...)
	}
	rows := []struct {
		name string
		data []byte
		want Capacity
		err  error
	}{
		{"a disk", capacity(999, 512), Capacity{1000, 512}, nil},
		{"short data that suffices", capacity(0, 4096)[:12], Capacity{1, 4096}, nil},
		{"too short", capacity(999, 512)[:11], Capacity{}, ErrProtocol},
		{"no block size", capacity(999, 0), Capacity{}, ErrProtocol},
		{"size wraps", capacity(1<<64-1, 512), Capacity{}, ErrProtocol},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				cdbs := reply(b, row.data)
				got, err := b.dial().ReadCapacity(t.Context(), lun(0))
				if !errors.Is(err, row.err) || got != row.want {
					t.Errorf("ReadCapacity: %v, %v; want %v, %v", got, err, row.want, row.err)
				}
				if want := [16]byte{0x9E, 0x10, 13: 32}; (*cdbs)[0] != want {
					t.Errorf("CDB %x, want %x", (*cdbs)[0], want)
				}
			})
		})
	}
}

func TestReadAndWriteMoveBlocks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		s := b.dial()
		data := noise(8 * blockSize)
		if err := s.Write(t.Context(), lun(0), 17, 8, data); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := s.Read(t.Context(), lun(0), 17, 8, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Read: %v, equal %v", err, bytes.Equal(got, data))
		}
		if err := s.Read(t.Context(), lun(0), 17, 7, got); !errors.Is(err, ErrProtocol) {
			t.Errorf("a read of fewer blocks than the buffer has: %v, want ErrProtocol", err)
		}
		if err := s.SyncCache(t.Context(), lun(0)); err != nil {
			t.Error(err)
		}
	})
}

func TestTheCDBsAreThoseOfTheStandard(t *testing.T) {
	want := [16]byte{0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if got := Read16(0x0102030405060708, 0x090A0B0C); got != want {
		t.Errorf("READ(16) %x", got)
	}
	want[0] = 0x8A
	if got := Write16(0x0102030405060708, 0x090A0B0C); got != want {
		t.Errorf("WRITE(16) %x", got)
	}
}

func TestUnitAttentionsAreGotOver(t *testing.T) {
	for _, row := range []struct {
		attentions int
		ok         bool
	}{{0, true}, {1, true}, {attentionRetries, true}, {attentionRetries + 1, false}} {
		bubble(t, func(t *testing.T, b *bed) {
			left := row.attentions
			b.command = func(c *conn, cmd *srp.Cmd) {
				if left > 0 {
					left--
					c.check(cmd.Tag(), 6, 0x29, 0)
					return
				}
				c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1})
			}
			err := b.dial().TestUnitReady(t.Context(), lun(0))
			if (err == nil) != row.ok {
				t.Errorf("%d unit attentions: %v", row.attentions, err)
			}
		})
	}
}

func TestOtherSenseIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.command = func(c *conn, cmd *srp.Cmd) { c.check(cmd.Tag(), 5, 0x25, 0) }
		var status *StatusError
		err := b.dial().TestUnitReady(t.Context(), lun(9))
		if !errors.As(err, &status) || status.Status != 2 {
			t.Fatalf("TestUnitReady: %v", err)
		}
		if want := "srp: TEST UNIT READY 192.0.2.2:5555: SCSI status 02h, sense 5/25/00"; err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
	})
}

func TestImpossibleResidualsAreAViolation(t *testing.T) {
	for _, residual := range []srp.Residual{-1, 253, 1<<32 - 1} {
		bubble(t, func(t *testing.T, b *bed) {
			b.command = func(c *conn, cmd *srp.Cmd) { c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1, In: residual}) }
			if _, err := b.dial().Inquiry(t.Context(), lun(0)); !errors.Is(err, ErrProtocol) {
				t.Errorf("residual %d: %v, want ErrProtocol", residual, err)
			}
		})
	}
}

func TestSenseDataIsReadInBothForms(t *testing.T) {
	rows := []struct {
		b              []byte
		key, asc, ascq byte
		ok             bool
	}{
		{[]byte{0x70, 0, 0xF6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 3}, 6, 0x29, 3, true},
		{[]byte{0xF1, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0}, 5, 0x24, 0, true},
		{[]byte{0x72, 0x06, 0x29, 0x07}, 6, 0x29, 7, true},
		{[]byte{0x73, 0x05, 0x24}, 0, 0, 0, false},
		{[]byte{0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29}, 0, 0, 0, false},
		{[]byte{0x00}, 0, 0, 0, false},
		{nil, 0, 0, 0, false},
	}
	for _, row := range rows {
		key, asc, ascq, ok := senseOf(row.b)
		if key != row.key || asc != row.asc || ascq != row.ascq || ok != row.ok {
			t.Errorf("%x: %x/%x/%x %v", row.b, key, asc, ascq, ok)
		}
	}
}
