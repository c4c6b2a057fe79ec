package rdmatest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// fdDevice is a device whose completion queues wake by a descriptor, as the other providers' do.
type fdDevice struct{ *Device }

type fdCQ struct {
	rdma.CQ
	fd int
}

func (d fdDevice) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	cfg.Wake = func() { unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
	inner, err := d.Device.NewCQ(cfg)
	return &fdCQ{inner, fd}, err
}

func (c *fdCQ) FD() int { return c.fd }

func (c *fdCQ) Poll(out []rdma.Completion) int {
	var counter [8]byte
	unix.Read(c.fd, counter[:])
	return c.CQ.Poll(out)
}

func (c *fdCQ) Close() error {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
	return c.CQ.Close()
}

func TestALoopSleepsOnADescriptor(t *testing.T) {
	for _, c := range append(manyChecks, wakeChecks[3]) {
		t.Run(c.name, func(t *testing.T) {
			leaktest.Check(t)
			h := harness(t)
			h.A, h.B = fdDevice{h.A.(*Device)}, fdDevice{h.B.(*Device)}
			c.run(newRig(t, h))
		})
	}
}

func TestAPollSleeperEndsAtTheDeadline(t *testing.T) {
	leaktest.Check(t)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s, err := newPollSleeper(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	deadline := time.Now().Add(5 * time.Millisecond)
	s.sleep(deadline)
	if early := time.Until(deadline); early > 0 {
		t.Errorf("woken %v too early", early)
	}
	s.kick()
	s.sleep(time.Time{})
}
