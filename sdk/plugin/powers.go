package plugin

import (
	"errors"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/power"
)

// maxCompare is the longest compare-and-write in bytes of data to write: what is expected and what is to be written fit in one
// message.
const maxCompare = maxMessage / 2

// dataPowers are the powers that have requests.
const dataPowers = backstore.PowerUnmap | backstore.PowerWriteZeroes | backstore.PowerCompareAndWrite | backstore.PowerWriteSame

func carriesData(op backstore.Op) bool {
	return op != backstore.OpFlush && op != backstore.OpUnmap && op != backstore.OpWriteZeroes
}

// checkPower is check for the powers' operations.
func (s *store) checkPower(r *backstore.Request) backstore.Code {
	if s.info.Powers&power.Of(r.Op) == 0 {
		return backstore.CodeNotSupported
	}
	n := r.N
	if r.Op == backstore.OpCompareAndWrite {
		n = int64(len(r.Data) / 2)
	}
	switch {
	case n < 0:
		return backstore.CodeRange
	case n == 0:
		return backstore.CodeInvalid
	}
	if c := s.inside(r.Off, uint64(n)); c != backstore.CodeOK {
		return c
	}
	switch {
	case s.info.ReadOnly:
		return backstore.CodeReadOnly
	case r.Op == backstore.OpCompareAndWrite && (len(r.Data)%2 != 0 || n > s.mostCompared()),
		r.Op == backstore.OpWriteSame && len(r.Data) != int(s.info.BlockSize),
		r.Flags&^s.flagsOf(r.Op) != 0:
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

func (s *store) mostCompared() int64 { return int64(max(s.info.MaxCompareAndWrite, s.info.BlockSize)) }

// flagsOf are the flags that a power's operation may have.
func (s *store) flagsOf(op backstore.Op) backstore.Flags {
	var f backstore.Flags
	if s.info.FUA && op != backstore.OpUnmap {
		f = backstore.FUA
	}
	if op == backstore.OpWriteZeroes {
		f |= backstore.MayUnmap
	}
	return f
}

func differsAt(err error) uint32 {
	var e *backstore.Error
	errors.As(err, &e)
	return e.At
}

// judge makes an I/O error of a miscompare that cannot be: of another operation, or outside what was compared.
func judge(res backstore.Result, op backstore.Op, length uint32) backstore.Result {
	if op != backstore.OpCompareAndWrite || res.At >= length/2 {
		res.Code, res.At = backstore.CodeIO, 0
	}
	return res
}

func honest(r *backstore.Request, res backstore.Result) backstore.Result {
	if res.Code != backstore.CodeMiscompare {
		return res
	}
	return judge(res, r.Op, uint32(len(r.Data)))
}
