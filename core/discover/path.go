package discover

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad/sa"
	"github.com/gosrpt/gosrpt/core/rdma"
)

var (
	// ErrPortDown: the link of the port that is to ask is down.
	ErrPortDown = errors.New("the port is down")
	// ErrNoManager: no subnet manager has brought the port up.
	ErrNoManager = errors.New("the port has no subnet manager")
	// ErrNotMember: the port is no member of a partition.
	ErrNotMember = errors.New("the port is not in the partition")
)

// Subnet is a port on an InfiniBand subnet, as the operating system shows it.
type Subnet struct {
	rdma.Port
	// SMSL is the service level on which the subnet's manager is reached.
	SMSL uint8
}

// Path is a way through a subnet to a port.
type Path struct {
	// GID is the port's.
	GID ib.GID
	// PKey is the partition's key.
	PKey ib.PKey
	// To is the address of the port's general services.
	To rdma.MADAddr
}

// FindPath asks the administrator of the subnet for the path to a port, by its GID, or by its LID if gid is zero. cfg.Port
// is registered for the responses of ib.ClassSubnAdm; cfg.To is not looked at. Errors wrap those above, ErrSilent, ErrLimit
// and sa.ErrPath, are a *sa.StatusError, or the port's.
func FindPath(ctx context.Context, cfg Config, s Subnet, gid ib.GID, lid ib.LID) (Path, Stats, error) {
	var err error
	if cfg.To, err = s.administrator(); err != nil {
		return Path{}, Stats{}, err
	}
	cfg = cfg.withDefaults()
	ctx, cancel := cfg.bound(ctx)
	defer cancel()
	a := newAsker(cfg)
	q := sa.PathQuery{SGID: s.GIDs[0], DGID: gid}
	if gid.IsZero() {
		q.DLID = lid
	}
	data, err := a.exchange(ctx, q)
	if err != nil {
		return Path{}, a.stats, err
	}
	r, err := sa.ParsePathRecord(data)
	if err == nil {
		err = q.Check(r)
	}
	if err != nil {
		return Path{}, a.stats, err
	}
	p, err := s.along(r)
	return p, a.stats, err
}

// administrator is the address of who answers for the subnet: the manager's port, in the default partition, of which every
// port is a member (IBTA vol 1, 15.4.2 and 10.9.1.2).
func (s *Subnet) administrator() (rdma.MADAddr, error) {
	switch {
	case s.State == ib.PortDown:
		return rdma.MADAddr{}, ErrPortDown
	case s.State != ib.PortActive || !s.LID.IsUnicast() || !s.SMLID.IsUnicast() || len(s.GIDs) == 0:
		return rdma.MADAddr{}, fmt.Errorf("%w: it is %v, with LID %d and the manager's LID %d", ErrNoManager, s.State, s.LID, s.SMLID)
	}
	i, err := s.keyIndex(ib.PKeyDefault)
	return rdma.MADAddr{LID: s.SMLID, SL: s.SMSL, QPN: ib.QPGeneralServices, PKeyIndex: i}, err
}

// along makes an address of a record that q.Check has found to be in order.
func (s *Subnet) along(r sa.PathRecord) (Path, error) {
	bits := r.SLID() ^ s.LID
	if bits>>(s.LMC&7) != 0 {
		return Path{}, fmt.Errorf("the subnet administration's path is from LID %d, which is not of this port: %w", r.SLID(), sa.ErrPath)
	}
	i, err := s.keyIndex(r.PKey())
	if err != nil {
		return Path{}, err
	}
	p := Path{GID: r.DGID(), PKey: r.PKey(), To: rdma.MADAddr{LID: r.DLID(), PathBits: uint8(bits), SL: r.SL(),
		QPN: ib.QPGeneralServices, PKeyIndex: i}}
	if r.Routed() {
		p.To.HasGRH = true
		p.To.GRH = rdma.MADRoute{GID: r.DGID(), HopLimit: r.HopLimit(), TrafficClass: r.TrafficClass(), FlowLabel: r.FlowLabel()}
	}
	return p, nil
}

// keyIndex is the place of the port's own key of a partition, that of a full member if it has both. Whether two limited
// members meet is left to the administrator, who knows the other port's.
func (s *Subnet) keyIndex(partition ib.PKey) (uint16, error) {
	same := func(k ib.PKey) bool { return k&0x7FFF == partition&0x7FFF }
	i := slices.IndexFunc(s.PKeys, func(k ib.PKey) bool { return same(k) && k.IsFull() })
	if i < 0 {
		i = slices.IndexFunc(s.PKeys, same)
	}
	if i < 0 || i > 0xFFFF {
		return 0, fmt.Errorf("%w %04x: its keys are %04x", ErrNotMember, uint16(partition), s.PKeys)
	}
	return uint16(i), nil
}
