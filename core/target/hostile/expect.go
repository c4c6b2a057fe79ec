package hostile

import (
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Try sends a unit on a channel of its own, to LUN 0, and looks at the answer. The login must be one that is accepted; Try fills in what the
// unit wants of it. What LUN 0 has to tell a new initiator is taken before.
func Try(t testing.TB, p Peer, r srp.LoginReq, u Unit) error {
	t.Helper()
	r.MaxITIU = 8260
	if !u.Plain {
		r.Flags, r.ImmediateOffset = srp.LoginImmediate, ImmediateOffset
	}
	c, rsp := Login(t, p, r)
	defer c.Close()
	c.Put(ready(1))
	c.Unit()
	b := u.Bytes
	if u.Long {
		b = append(b, make([]byte, int(rsp.MaxITIU)+1-len(b))...)
	}
	c.Put(b)
	return c.Expect(u.Want)
}

// ready is a TEST UNIT READY.
func ready(tag srp.Tag) []byte { return (&srp.CmdFields{Tag: tag, CDB: make([]byte, 6)}).Append(nil) }

// Expect looks at the answer to the one unit that was sent.
func (c *Channel) Expect(want Answer) error {
	c.t.Helper()
	u := c.Unit()
	switch {
	case want.end && u != nil:
		return fmt.Errorf("answered with %x, want the end of the connection alone", u)
	case want.end:
		return nil
	case u == nil:
		return fmt.Errorf("disconnected without an answer")
	case want.check:
		return c.expectCheck(u)
	}
	out, err := srp.ParseTLogout(u)
	if err != nil {
		return fmt.Errorf("answered with %x, want SRP_T_LOGOUT %v", u, want.reason)
	}
	if out.Reason != want.reason {
		return fmt.Errorf("logged out with %v, want %v", out.Reason, want.reason)
	}
	if u := c.Unit(); u != nil {
		return fmt.Errorf("%x follows SRP_T_LOGOUT", u)
	}
	return nil
}

// expectCheck wants a CHECK CONDITION, and that the channel goes on with the credit returned.
func (c *Channel) expectCheck(u []byte) error {
	c.t.Helper()
	rsp, err := srp.ParseRsp(u)
	if err != nil {
		return fmt.Errorf("answered with %x, want SRP_RSP", u)
	}
	sense := rsp.Sense()
	if rsp.Status() != 2 || len(sense) < 14 || sense[2] != 5 || sense[12] != 0x24 || sense[13] != 0 || rsp.Delta() < 1 {
		return fmt.Errorf("status %02xh, sense %x, delta %d; want CHECK CONDITION 5/24/00 and a credit", rsp.Status(), sense, rsp.Delta())
	}
	c.Put(ready(99))
	rsp, err = srp.ParseRsp(c.Unit())
	if err != nil || rsp.Tag() != 99 {
		return fmt.Errorf("the channel does not go on: %v", err)
	}
	return nil
}
