package roce

import "github.com/gosrpt/gosrpt/core/rdma"

func failed(op, peer string, err error) error {
	return &rdma.Error{Op: op, Peer: peer, Err: err}
}

func (d *Device) fail(op string, err error) error { return failed(op, d.name, err) }
