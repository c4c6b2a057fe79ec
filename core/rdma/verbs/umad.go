//go:build verbs

package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

const (
	// umadResend is after what time the kernel sends a request again that nobody has answered, and umadResends how often. Afterwards
	// it forgets the request, and drops an answer.
	umadResend  = 2 * time.Second
	umadResends = 4
)

// umadMADs is an rdma.MADPort over a descriptor of ib_umad.
type umadMADs struct {
	name  string
	file  umadFile
	agent uint32

	reading sync.Mutex // held by Receive
	in      [umadHeader + rdma.MADBufferSize]byte

	sending sync.Mutex // held by Send
	out     []byte
	last    []byte // the last request sent, its header included
	lastAt  time.Time
}

// OpenUMAD registers for a class on a port of an adapter, as rdma.MADDevice says. What the port's link does and what a subnet manager
// gives to it needs no new registration; that the adapter is removed ends Receive with an error.
//
// A request of a transaction id and for a destination of which another one is in flight is not sent again by Send: the kernel does that.
func OpenUMAD(ca string, port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	p := &umadMADs{name: fmt.Sprintf("%s port %d", ca, port)}
	if err := p.open(ca, port, cfg); err != nil {
		return nil, p.fail("register for datagrams of", err)
	}
	return p, nil
}

func (p *umadMADs) fail(op string, err error) error {
	return &rdma.Error{Op: op, Peer: p.name, Err: err}
}

func (p *umadMADs) open(ca string, port int, cfg rdma.MADConfig) error {
	if port < 1 || port > 255 || !validAdapter(ca) || slices.ContainsFunc(cfg.Methods, ib.Method.IsResponse) {
		return rdma.ErrInvalid
	}
	fd, err := umadOpen(ca, port)
	if err != nil {
		return umadOpenProblem(err)
	}
	if p.agent, err = umadRegister(fd, cfg.Class, cfg.Version, cfg.Methods); err != nil {
		defer umadClose(fd)
		return umadRegisterProblem(fd, cfg, err)
	}
	if p.file, err = newUMADFile(fd); err != nil {
		umadClose(fd)
	}
	return err
}

// umadOpenProblem says what to do about a port that cannot be opened.
func umadOpenProblem(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the machine has no such port: %w", rdma.ErrInvalid, err)
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: be root, or have a rule of udev give /dev/infiniband/umad* to the user", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: udev, or who makes the files of this container, has to make /dev/infiniband/umad*", err)
	}
	return err
}

// umadRegisterProblem tells a class that is taken from one that the kernel refuses: it has the same number for both. What is taken is methods;
// without any, the class can be had.
func umadRegisterProblem(fd int, cfg rdma.MADConfig, err error) error {
	if len(cfg.Methods) > 0 {
		if _, none := umadRegister(fd, cfg.Class, cfg.Version, nil); none == nil {
			return fmt.Errorf("requests of class %#02x: %w", uint8(cfg.Class), umadOwner(cfg.Class, srptModule))
		}
	}
	return fmt.Errorf("the kernel refuses class %#02x: %w", uint8(cfg.Class), err)
}

// srptModule is there while the kernel's target is loaded.
const srptModule = "/sys/module/ib_srpt"

// umadOwner names who has a class, and how it is freed.
func umadOwner(class ib.Class, module string) *rdma.TakenError {
	if class == ib.ClassDeviceMgmt {
		if _, err := os.Stat(module); err == nil {
			return &rdma.TakenError{Owner: "the kernel's SRP target (module ib_srpt)", Mend: "unload it (modprobe -r ib_srpt)"}
		}
	}
	return &rdma.TakenError{Owner: "another process that has the port's /dev/infiniband/umad* open, such as another target",
		Mend: "end it (fuser -v /dev/infiniband/umad*)"}
}

// Receive waits for a datagram.
func (p *umadMADs) Receive(ctx context.Context, b []byte) (int, rdma.MADAddr, error) {
	const op = "receive datagram at"
	if len(b) < rdma.MADBufferSize {
		return 0, rdma.MADAddr{}, p.fail(op, rdma.ErrInvalid)
	}
	p.reading.Lock()
	defer p.reading.Unlock()
	for {
		n, err := p.file.read(ctx, p.in[:])
		switch {
		case errors.Is(err, os.ErrClosed):
			return 0, rdma.MADAddr{}, p.fail(op, rdma.ErrClosed)
		case err != nil && err == ctx.Err():
			return 0, rdma.MADAddr{}, err
		case err != nil:
			return 0, rdma.MADAddr{}, p.fail(op, err)
		}
		// Nobody has answered a request of ours: to the contract it is lost.
		if m, ok := parseUMAD(p.in[:n]); ok && m.status() == 0 {
			return copy(b, m.mad()), m.from(), nil
		}
	}
}

// Send sends a datagram.
func (p *umadMADs) Send(to rdma.MADAddr, b []byte) error {
	const op = "send datagram from"
	if len(b) != ib.MADSize || !umadReachable(to) {
		return p.fail(op, rdma.ErrInvalid)
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	var err error
	if ib.MAD(b).Method().IsResponse() {
		p.out = appendUMAD(p.out[:0], p.agent, 0, 0, to, b)
		err = p.file.write(p.out)
	} else {
		p.out = appendUMAD(p.out[:0], p.agent, uint32(umadResend.Milliseconds()), umadResends, to, b)
		err = p.sendRequest()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed):
		err = rdma.ErrClosed
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH):
		err = fmt.Errorf("%w: %w", rdma.ErrInvalid, err)
	}
	return p.fail(op, err)
}

// sendRequest sends what is in out. The kernel refuses a request that it is sending already (EINVAL); it goes on with that.
func (p *umadMADs) sendRequest() error {
	err := p.file.write(p.out)
	again := time.Since(p.lastAt) < (umadResends+1)*umadResend && slices.Equal(p.out, p.last)
	if errors.Is(err, unix.EINVAL) && again {
		return nil
	}
	if err == nil {
		p.last, p.lastAt = append(p.last[:0], p.out...), time.Now()
	}
	return err
}

// Close gives the registration up.
func (p *umadMADs) Close() error {
	if err := p.file.close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return p.fail("close", err)
	}
	return nil
}
