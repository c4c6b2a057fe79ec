package store

import "github.com/gosrpt/gosrpt/sdk/backstore"

// rule is what a Guard wants of the requests of one operation.
type rule struct {
	// power is what the store must have, and flags what may be set.
	power backstore.Powers
	flags backstore.Flags
	// changes tells that the operation changes blocks.
	changes bool
	// data says what Data is.
	data dataRule
}

// dataRule says what Request.Data is.
type dataRule uint8

const (
	dataNone   dataRule = iota // nil; N says how many bytes of the store it is about
	dataBlocks                 // the blocks themselves
	dataTwice                  // what is expected, then as much to write
	dataOne                    // one block; N says how many bytes of the store
	dataFlush                  // nothing at all
)

// rules are the operations; those without an entry do not exist.
var rules = [operations]rule{
	backstore.OpRead:  {data: dataBlocks},
	backstore.OpWrite: {data: dataBlocks, flags: backstore.FUA, changes: true},
	backstore.OpFlush: {data: dataFlush},
	backstore.OpUnmap: {data: dataNone, power: backstore.PowerUnmap, changes: true},
	backstore.OpWriteZeroes: {
		data: dataNone, power: backstore.PowerWriteZeroes, flags: backstore.FUA | backstore.MayUnmap, changes: true,
	},
	backstore.OpCompareAndWrite: {data: dataTwice, power: backstore.PowerCompareAndWrite, flags: backstore.FUA, changes: true},
	backstore.OpWriteSame:       {data: dataOne, power: backstore.PowerWriteSame, flags: backstore.FUA, changes: true},
}

// operations is the number of the last operation and one.
const operations = int(backstore.OpWriteSame) + 1

// rule returns the rule of a request's operation, nil if there is no such operation.
func (r *Request) rule() *rule {
	if r.Op == 0 || int(r.Op) >= operations {
		return nil
	}
	return &rules[r.Op]
}

// changes is 1 for a request that changes blocks, else 0.
func (r *Request) changes() int {
	if rule := r.rule(); rule != nil && rule.changes {
		return 1
	}
	return 0
}

// Extent is how many bytes of the store, from Off on, the request is about; 0 for backstore.OpFlush.
func (r *Request) Extent() int64 {
	switch r.Op {
	case backstore.OpRead, backstore.OpWrite:
		return int64(len(r.Data))
	case backstore.OpCompareAndWrite:
		return int64(len(r.Data) / 2)
	}
	return r.N
}

// overlaps tells whether two requests that passed the checks concern the same blocks.
func (r *Request) overlaps(o *Request) bool {
	return r.Off < o.Off+o.Extent() && o.Off < r.Off+r.Extent()
}
