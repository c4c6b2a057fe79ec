package target

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/lu"
)

// handler runs the commands of channels on the logical units: it is their conn.Handler.
type handler struct{ t *Target }

// task is the state of a command slot: the logical unit's task, and its host.
type task struct {
	lu.Task
	cmd *conn.Command
	at  *mapped
}

// NewState makes the task of a command slot.
func (h handler) NewState(c *conn.Command) any {
	k := &task{cmd: c}
	k.Host = k
	return k
}

// Start gives the command to the unit that its LUN names.
func (h handler) Start(c *conn.Command) {
	k, s := c.User.(*task), c.Session().User.(*session)
	lun := c.IU.LUN()
	k.CDB, k.LUN, k.Attr = c.IU.CDB(), binary.BigEndian.Uint64(lun[:]), uint8(c.IU.Attr())
	k.OutLen, k.InLen = c.OutLen, c.InLen
	k.Nexus, k.Port = s.id, &s.port
	k.at, k.ReadOnly = s.find(k.LUN)
	k.at.unit.Start(&k.Task)
}

// DataReady goes on with a command whose buffer is there.
func (h handler) DataReady(c *conn.Command) {
	k := c.User.(*task)
	if k.at == nil {
		return
	}
	k.Buf = c.Data()
	k.at.unit.DataReady(&k.Task)
}

// Abort ends a command early. The command may have ended meanwhile, when the end of another one let it run.
func (h handler) Abort(c *conn.Command) {
	k := c.User.(*task)
	if k.at != nil {
		k.at.unit.Abort(&k.Task)
	}
}

// NeedBuffer gets the task a buffer for data-in.
func (k *task) NeedBuffer(_ *lu.Task, n uint64) { k.cmd.GetBuffer(k.at.arena, n) }

// NeedData gets the task a buffer with data-out.
func (k *task) NeedData(_ *lu.Task, n, room uint64) { k.cmd.Fetch(k.at.arena, n, room) }

// Done ends the command.
func (k *task) Done(*lu.Task) {
	k.Buf, k.CDB, k.at = nil, nil, nil
	k.cmd.Finish(conn.Result{
		Status: byte(k.Status), Sense: k.Sense, OutUsed: k.OutUsed, InUsed: k.InUsed, Wanted: k.Wanted,
	})
}
