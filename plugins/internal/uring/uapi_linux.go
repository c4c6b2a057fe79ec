package uring

// Numbers and layouts of io_uring_setup(2), io_uring_enter(2) and io_uring_register(2).
const (
	offSQRing = 0
	offCQRing = 0x8000000
	offSQEs   = 0x10000000

	registerEventfd = 4
	registerProbe   = 8

	opNop   = 0
	opFsync = 3
	opRead  = 22
	opWrite = 23

	fsyncDatasync  = 1
	opSupported    = 1
	featSingleMmap = 1

	rwfDsync = 2 // RWF_DSYNC of pwritev2(2)

	sqeSize = 64
	cqeSize = 16
)

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sqOff                                                                  sqOffsets
	cqOff                                                                  cqOffsets
}

// sqOffsets is struct io_sqring_offsets.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

// sqe is struct io_uring_sqe, the fields in use.
type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	len, opFlags  uint32
	userData      uint64
	pad           [3]uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// probe is struct io_uring_probe with room for the operations in use.
type probe struct {
	lastOp, opsLen uint8
	resv           uint16
	resv2          [3]uint32
	ops            [64]probeOp
}

// probeOp is struct io_uring_probe_op.
type probeOp struct {
	op, resv uint8
	flags    uint16
	resv2    uint32
}
