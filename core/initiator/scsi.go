package initiator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Operation codes (SPC-4, SBC-3).
const (
	opTestUnitReady = 0x00
	opInquiry       = 0x12
	opRead16        = 0x88
	opWrite16       = 0x8A
	opSyncCache16   = 0x91
	opServiceIn16   = 0x9E
	opReportLUNs    = 0xA0

	serviceReadCapacity16 = 0x10

	keyUnitAttention = 0x06
	// attentionRetries is how many unit attention conditions in a row are got over.
	attentionRetries = 4

	capacityLen   = 32
	reportLUNsLen = 8 + 8*512
)

// Read16 is the CDB of READ(16): blocks of data from lba on.
func Read16(lba uint64, blocks uint32) [16]byte { return blockCDB(opRead16, lba, blocks) }

// Write16 is the CDB of WRITE(16).
func Write16(lba uint64, blocks uint32) [16]byte { return blockCDB(opWrite16, lba, blocks) }

func blockCDB(op byte, lba uint64, blocks uint32) (cdb [16]byte) {
	cdb[0] = op
	binary.BigEndian.PutUint64(cdb[2:], lba)
	binary.BigEndian.PutUint32(cdb[10:], blocks)
	return cdb
}

// run carries out a command and returns how many bytes came in. A unit attention condition is
// reported to the log and the command sent again, as nothing was done.
func (s *Session) run(ctx context.Context, op string, lun srp.LUN, cdb, out, in []byte) (int, error) {
	for try := 0; ; try++ {
		res, err := s.Do(ctx, lun, cdb, out, in)
		if err != nil {
			return 0, err
		}
		err = res.Check()
		var status *StatusError
		if errors.As(err, &status) {
			key, asc, ascq := status.Code()
			if key == keyUnitAttention && try < attentionRetries {
				s.log.Debug("unit attention", "lun", lun.String(), "asc", asc, "ascq", ascq)
				continue
			}
		}
		if err != nil {
			return 0, s.fail(op, err)
		}
		if res.In < 0 || res.Out != 0 || int64(res.In) > int64(len(in)) {
			return 0, s.fail(op, violation("status GOOD with residuals %d out, %d in", res.Out, res.In))
		}
		return len(in) - int(res.In), nil
	}
}

// TestUnitReady tells whether the logical unit is ready.
func (s *Session) TestUnitReady(ctx context.Context, lun srp.LUN) error {
	_, err := s.run(ctx, "TEST UNIT READY", lun, []byte{opTestUnitReady, 0, 0, 0, 0, 0}, nil, nil)
	return err
}

// Inquiry returns the standard INQUIRY data.
func (s *Session) Inquiry(ctx context.Context, lun srp.LUN) ([]byte, error) {
	return s.inquiry(ctx, lun, 0, 0)
}

// VPD returns a page of vital product data.
func (s *Session) VPD(ctx context.Context, lun srp.LUN, page byte) ([]byte, error) {
	return s.inquiry(ctx, lun, 1, page)
}

func (s *Session) inquiry(ctx context.Context, lun srp.LUN, evpd, page byte) ([]byte, error) {
	in := make([]byte, 252)
	n, err := s.run(ctx, "INQUIRY", lun, []byte{opInquiry, evpd, page, 0, byte(len(in)), 0}, nil, in)
	return in[:n], err
}

// ReportLUNs returns the logical units there are, up to 512.
func (s *Session) ReportLUNs(ctx context.Context) ([]srp.LUN, error) {
	in := make([]byte, reportLUNsLen)
	cdb := make([]byte, 12)
	cdb[0] = opReportLUNs
	binary.BigEndian.PutUint32(cdb[6:], uint32(len(in)))
	n, err := s.run(ctx, "REPORT LUNS", srp.LUN{}, cdb, nil, in)
	if err != nil {
		return nil, err
	}
	if n < 8 {
		return nil, s.fail("REPORT LUNS", violation("%d bytes of data", n))
	}
	count := min(uint64(binary.BigEndian.Uint32(in)), uint64(n-8)) / 8
	list := make([]srp.LUN, count)
	for i := range list {
		list[i] = srp.LUN(in[8+8*i : 16+8*i])
	}
	return list, nil
}

// Capacity is the size of a logical unit.
type Capacity struct {
	Blocks    uint64
	BlockSize uint32
}

// ReadCapacity returns the size of a logical unit, by READ CAPACITY(16).
func (s *Session) ReadCapacity(ctx context.Context, lun srp.LUN) (c Capacity, err error) {
	in := make([]byte, capacityLen)
	cdb := make([]byte, 16)
	cdb[0], cdb[1] = opServiceIn16, serviceReadCapacity16
	binary.BigEndian.PutUint32(cdb[10:], capacityLen)
	n, err := s.run(ctx, "READ CAPACITY", lun, cdb, nil, in)
	if err != nil {
		return c, err
	}
	last, size := binary.BigEndian.Uint64(in), binary.BigEndian.Uint32(in[8:])
	if n < 12 || size == 0 || last == 1<<64-1 {
		return c, s.fail("READ CAPACITY", violation("%d bytes of data: last block %d, block size %d", n, last, size))
	}
	return Capacity{Blocks: last + 1, BlockSize: size}, nil
}

// Read reads blocks from lba on into p, which has to be a whole number of blocks long.
func (s *Session) Read(ctx context.Context, lun srp.LUN, lba uint64, blocks uint32, p []byte) error {
	cdb := Read16(lba, blocks)
	n, err := s.run(ctx, "READ", lun, cdb[:], nil, p)
	if err == nil && n != len(p) {
		err = s.fail("READ", fmt.Errorf("%w: %d bytes came, %d were asked for", ErrProtocol, n, len(p)))
	}
	return err
}

// Write writes p, a whole number of blocks, from lba on.
func (s *Session) Write(ctx context.Context, lun srp.LUN, lba uint64, blocks uint32, p []byte) error {
	cdb := Write16(lba, blocks)
	_, err := s.run(ctx, "WRITE", lun, cdb[:], p, nil)
	return err
}

// SyncCache makes what was written to the logical unit durable.
func (s *Session) SyncCache(ctx context.Context, lun srp.LUN) error {
	cdb := blockCDB(opSyncCache16, 0, 0)
	_, err := s.run(ctx, "SYNCHRONIZE CACHE", lun, cdb[:], nil, nil)
	return err
}
