package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// udPacket is the length of a management datagram: BTH, DETH, MAD, ICRC.
const udPacket = wire.BTHSize + wire.DETHSize + ib.MADSize + wire.ICRCSize

// endpoint is one IP address of a device: its connection manager with the goroutine that serves QP 1,
// and the sockets of the CQs.
type endpoint struct {
	dev  *Device
	addr netip.Addr
	gid  ib.GID
	zone uint32
	v6   bool

	file       *os.File // the socket of QP 1
	raw        syscall.RawConn
	complaints chan complaint
	done       chan struct{}

	// Guarded by Device.mu: the sockets of the CQs, by member number; since when the interface does not have the address; how many CQs
	// use a socket once the endpoint is retired.
	members []int
	missing time.Time
	users   int

	mu      sync.Mutex
	closed  bool
	cm      *cm.Machine
	conns   map[cm.Handle]*conn
	actions []cm.Action
	psn     ib.PSN
	counts  endpointCounts
	// When the log may be told again.
	nextBad, nextReject int64
}

// endpointCounts is what QP 1 has seen.
type endpointCounts struct{ received, badPacket, badICRC, sendErrors, madsIn, madsOut, madsLost uint64 }

// conn is what a connection of the connection manager belongs to: a queue pair, or a request that
// nobody has answered.
type conn struct {
	q      *qp
	number ib.QPN
	req    *request
}

// openEndpoint binds the address. The socket of QP 1 is the group's number 0.
func openEndpoint(d *Device, a netip.Addr, index int) (*endpoint, error) {
	ep := &endpoint{
		dev: d, addr: a, gid: gidOf(a.WithZone("")), v6: a.Is6(), conns: make(map[cm.Handle]*conn),
		complaints: make(chan complaint, 4), done: make(chan struct{}), psn: ib.PSN(random64()) & ib.PSNMask,
	}
	if a.Zone() != "" {
		ep.zone = uint32(index)
	}
	if err := ep.probe(); err != nil {
		return nil, err
	}
	fd, err := openSocket(ep.socketConfig(true))
	if err != nil {
		return nil, err
	}
	if err := steer(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	ep.file = os.NewFile(uintptr(fd), "roce "+a.String())
	if ep.raw, err = ep.file.SyscallConn(); err != nil {
		ep.file.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	ep.cm = cm.New(cm.Config{CAGUID: d.attr.NodeGUID, Rand: func() uint32 { return uint32(random64()) }})
	go ep.serve()
	return ep, nil
}

// managementBuffer is what the socket of QP 1 asks for: every initiator of a fabric may come back at
// once.
const managementBuffer = 1 << 20

func (ep *endpoint) socketConfig(management bool) socketConfig {
	c := socketConfig{addr: ep.addr, zone: ep.zone, share: true, mayBeUnassigned: ep.v6 && !ep.addr.IsLoopback()}
	if management {
		c.receive = managementBuffer
	} else {
		c.receive, c.send, c.gro = ep.dev.cfg.ReceiveBuffer, ep.dev.cfg.SendBuffer, !ep.dev.cfg.NoGRO
	}
	return c
}

// probe binds the address alone for a moment, which fails if another process shares it already.
func (ep *endpoint) probe() error {
	c := ep.socketConfig(true)
	c.share = false
	fd, err := openSocket(c)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// member returns the socket of a member number, and opens those up to it. Device.mu is held.
func (ep *endpoint) member(n int) (int, error) {
	for len(ep.members) <= n {
		fd, err := openSocket(ep.socketConfig(false))
		if err != nil {
			return -1, err
		}
		if f := ep.dev.cfg.onSocket; f != nil {
			f(fd)
		}
		ep.members = append(ep.members, fd)
	}
	return ep.members[n], nil
}

// pathMTU is the largest path MTU that the interface carries now, at most limit bytes.
func (ep *endpoint) pathMTU(limit int) ib.MTU {
	i, err := net.InterfaceByName(ep.dev.name)
	if err != nil {
		return 0
	}
	return min(wire.PathMTU(i.MTU, ep.v6), ib.LargestMTU(limit))
}

// close ends the goroutine. The connection manager has been told to end its connections.
func (ep *endpoint) close() {
	ep.mu.Lock()
	ep.closed = true
	ep.mu.Unlock()
	ep.file.Close()
	<-ep.done
}

// closeMembers closes the sockets of the CQs, whose owners have stopped.
func (ep *endpoint) closeMembers() {
	for _, fd := range ep.members {
		unix.Close(fd)
	}
	ep.members = nil
}

// serve is the goroutine: datagrams to QP 1, and the connection manager's timers. It ends when the
// file is closed.
func (ep *endpoint) serve() {
	defer close(ep.done)
	buf := make([]byte, bufferPlain)
	for {
		var n int
		var from unix.Sockaddr
		var rerr error
		err := ep.raw.Read(func(fd uintptr) bool {
			n, from, rerr = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(rerr, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			ep.tick()
		case err != nil:
			return
		case rerr == nil:
			ep.receive(from, buf[:n])
		}
		ep.logComplaints()
	}
}

func (ep *endpoint) tick() {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	_ = ep.step(cm.Tick{})
}

// receive checks a datagram to QP 1 and gives it to the connection manager.
func (ep *endpoint) receive(from unix.Sockaddr, b []byte) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.counts.received++
	gid, port, ok := ep.source(from)
	p, err := wire.Parse(b)
	bad := !ok || err != nil || p.Opcode() != wire.UDSendOnly || p.BTH().DestQP() != ib.QPGeneralServices ||
		p.DETH().QKey() != ib.QKeyGSI || !p.BTH().PKey().Matches(ib.PKeyDefault)
	if bad {
		ep.counts.badPacket++
		ep.logBad(gid, "no management datagram")
		return
	}
	if _, ok := wire.NewFlow(gid, ep.gid, port, wire.UDPPort).Verify(p); !ok {
		ep.counts.badICRC++
		ep.logBad(gid, "wrong ICRC")
		return
	}
	if d := p.Payload(); len(d) > 1 && ib.Class(d[1]) != ib.ClassComm {
		ep.takeMAD(gid, p.DETH().SrcQP(), d)
		return
	}
	if err := ep.step(cm.Received{Peer: gid, MAD: p.Payload()}); err != nil {
		ep.counts.badPacket++
		ep.logBad(gid, err.Error())
	}
}

func (ep *endpoint) source(from unix.Sockaddr) (ib.GID, uint16, bool) {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		return ib.GIDFromIPv4(a.Addr), uint16(a.Port), !ep.v6
	case *unix.SockaddrInet6:
		return ib.GID(a.Addr), uint16(a.Port), ep.v6
	}
	return ib.GID{}, 0, false
}

// step gives an event to the connection manager and carries out what follows. The lock is held.
func (ep *endpoint) step(ev cm.Event) error {
	if ep.closed {
		return rdma.ErrClosed
	}
	actions, err := ep.cm.Step(clock(), ev, ep.actions[:0])
	ep.actions = actions
	var refuse []cm.Reject
	for i := range actions {
		refuse = ep.act(&actions[i], refuse)
	}
	clear(actions)
	for _, r := range refuse {
		_ = ep.step(r) // the request may have timed out meanwhile
	}
	ep.arm()
	return err
}

// arm sets the goroutine's deadline.
func (ep *endpoint) arm() {
	var t time.Time
	if at, ok := ep.cm.Deadline(); ok {
		t = clockBase.Add(time.Duration(at))
	}
	_ = ep.file.SetReadDeadline(t) // fails only on a closed file
}

// wake makes the goroutine look around.
func (ep *endpoint) wake() { _ = ep.file.SetReadDeadline(clockBase) }

// act carries out one action. Requests that must be refused are added to refuse.
func (ep *endpoint) act(a *cm.Action, refuse []cm.Reject) []cm.Reject {
	switch a.Kind {
	case cm.ActionSend:
		ep.send(a.Peer, ib.QPGeneralServices, a.MAD)
		ep.logReject(a)
	case cm.ActionRequest:
		if reason := ep.offer(a); reason != 0 {
			refuse = append(refuse, cm.Reject{Conn: a.Conn, Reason: reason})
		}
	case cm.ActionEstablished:
		ep.tell(a, notice{kind: noticeEstablished, reply: a.Reply})
	case cm.ActionEnded:
		ep.ended(a)
	case cm.ActionReleased:
		if c := ep.conns[a.Conn]; c != nil {
			delete(ep.conns, a.Conn)
			ep.dev.numbers.give(c.number)
		}
	}
	return refuse
}

// tell brings news to the owner of the connection's queue pair.
func (ep *endpoint) tell(a *cm.Action, n notice) {
	if c := ep.conns[a.Conn]; c != nil && c.q != nil {
		n.q = c.q
		c.q.cq.post(n)
	}
}

func (ep *endpoint) ended(a *cm.Action) {
	c := ep.conns[a.Conn]
	if c == nil {
		return
	}
	ep.dev.log.Debug("connection ended", "local", ep.addr, "peer", addrOf(a.Peer, ""), "cause", a.Cause, "reason", a.Reason)
	if c.req != nil {
		c.req.withdraw()
	}
	ep.tell(a, notice{kind: noticeEnded, cause: a.Cause, reason: a.Reason, private: a.Private})
}

// send sends a MAD from QP 1 to a queue pair of a peer. The lock is held.
func (ep *endpoint) send(peer ib.GID, qpn ib.QPN, mad []byte) {
	b := make([]byte, 0, udPacket)
	ep.psn = ep.psn.Add(1)
	b = wire.Header{Opcode: wire.UDSendOnly, MigReq: true, PKey: ib.PKeyDefault, DestQP: qpn, PSN: ep.psn}.Append(b)
	b = wire.AppendDETH(b, ib.QKeyGSI, ib.QPGeneralServices)
	b = append(b, mad...)
	b = wire.NewFlow(ep.gid, peer, wire.UDPPort, wire.UDPPort).Seal(b, 0, 0)
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: wire.UDPPort, Addr: peer, ZoneId: ep.zone}
	if ip, ok := peer.IPv4(); ok {
		to = &unix.SockaddrInet4{Port: wire.UDPPort, Addr: ip}
	}
	var err error
	cerr := ep.raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, to) })
	if err != nil || cerr != nil {
		ep.counts.sendErrors++
		ep.dev.log.Debug("cannot send a management datagram", "local", ep.addr, "peer", addrOf(peer, ep.addr.Zone()), "error", err)
	}
}

// logComplaints tells the operator of malformed packets that the CQs have met.
func (ep *endpoint) logComplaints() {
	for {
		select {
		case c := <-ep.complaints:
			ep.warnMalformed(c.peer, countNames[c.why])
		default:
			return
		}
	}
}

func (ep *endpoint) warnMalformed(peer ib.GID, why string) {
	ep.dev.log.Warn("dropped a malformed packet; more of them are only counted", "peer", addrOf(peer, ep.addr.Zone()),
		"local", ep.addr, "why", why)
}

// logBad tells the operator of a malformed datagram to QP 1, one in ten seconds.
func (ep *endpoint) logBad(peer ib.GID, why string) {
	if now := clock(); now >= ep.nextBad {
		ep.nextBad = now + complainEvery
		ep.warnMalformed(peer, why)
	}
}

// logReject tells the operator that a request was refused, and why, a few times a second at most.
func (ep *endpoint) logReject(a *cm.Action) {
	msg, err := cm.ParseMessage(a.MAD)
	if err != nil || msg.Attr() != cm.AttrREJ {
		return
	}
	if now := clock(); now >= ep.nextReject {
		ep.nextReject = now + rejectLogEvery
		ep.dev.log.Info("refused a connection", "peer", addrOf(a.Peer, ep.addr.Zone()), "local", ep.addr,
			"reason", msg.REJ().Reason())
	}
}

const rejectLogEvery = 200_000_000
