package backstore

import (
	"context"
	"fmt"
	"strings"
)

// Powers are what a Store can do beyond its five methods: a set of bits.
type Powers uint32

// The powers. Each is an interface of one method.
const (
	// PowerUnmap: Unmapper.
	PowerUnmap Powers = 1 << iota
	// PowerWriteZeroes: ZeroWriter.
	PowerWriteZeroes
	// PowerCompareAndWrite: Comparer.
	PowerCompareAndWrite
	// PowerWriteSame: SameWriter.
	PowerWriteSame
	// PowerResize: Resizer.
	PowerResize
	// PowerHealth: HealthReporter.
	PowerHealth
	// PowerSanitize: Sanitizer.
	PowerSanitize
)

var powerNames = [...]string{"unmap", "write zeroes", "compare and write", "write same", "resize notice", "health", "sanitize"}

// String lists the powers' names.
func (p Powers) String() string {
	var s []string
	for i, name := range powerNames {
		if p&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	if rest := p &^ (1<<len(powerNames) - 1); rest != 0 {
		s = append(s, fmt.Sprintf("unknown %#x", uint32(rest)))
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, ", ")
}

// Has tells whether p holds all of q.
func (p Powers) Has(q Powers) bool { return p&q == q }

// Limited is a Store that has methods for powers that it may not have: a wrapper of any store, or one whose medium decides.
type Limited interface {
	Store
	// Powers are those of its methods that count. It is called after Open, does not block, and its answer never changes.
	Powers() Powers
}

// PowersOf finds out what s can do by the interfaces that it has, less what a Limited says does not count. A wrapper that hides an
// interface hides the power. Whoever asks a store for a power asks here first.
func PowersOf(s Store) Powers {
	var p Powers
	for power, has := range map[Powers]bool{
		PowerUnmap: is[Unmapper](s), PowerWriteZeroes: is[ZeroWriter](s), PowerCompareAndWrite: is[Comparer](s),
		PowerWriteSame: is[SameWriter](s), PowerResize: is[Resizer](s), PowerHealth: is[HealthReporter](s),
		PowerSanitize: is[Sanitizer](s),
	} {
		if has {
			p |= power
		}
	}
	if l, ok := s.(Limited); ok {
		p &= l.Powers()
	}
	return p
}

func is[T any](s Store) bool {
	_, ok := s.(T)
	return ok
}

// Unmapper is a Store that can give blocks back to its medium. Blocks that were never written since count as unmapped.
type Unmapper interface {
	// Unmap gives up the content of n bytes from off, whole blocks inside the store. Parts that do not fill a unit of
	// Info.UnmapGranularity may stay as they are. What is read there afterwards is the same at each read until the next
	// write: zeroes if Info.UnmapZeroes says so, for every block of the range.
	Unmap(ctx context.Context, off, n int64) error
}

// ZeroWriter is a Store that can write zeroes without being sent them.
type ZeroWriter interface {
	// WriteZeroes makes n bytes from off, whole blocks inside the store, read as zeroes. With MayUnmap in flags the blocks may
	// be given back to the medium as well; without it they must stay allocated, so that a later write finds room.
	// FUA is as for Write. It may have done a part when it fails.
	WriteZeroes(ctx context.Context, off, n int64, flags Flags) error
}

// Comparer is a Store that can compare and write in one step.
type Comparer interface {
	// CompareAndWrite writes data at off if what is there equals expect, which is as long: whole blocks inside the store, at
	// most Info.MaxCompareAndWrite bytes. Nothing else reads or writes these blocks in between. If it differs nothing is
	// written, and the error is a Miscompare. It is not repeated after the end of a process, so it may have been done
	// when nobody heard of it.
	CompareAndWrite(ctx context.Context, expect, data []byte, off int64, flags Flags) error
}

// SameWriter is a Store that can write one block many times.
type SameWriter interface {
	// WriteSame writes block, one logical block, to every block of the n bytes from off. It may have done a part when it fails.
	WriteSame(ctx context.Context, block []byte, off, n int64, flags Flags) error
}

// Resizer is a Store that notices when its size changes under way.
type Resizer interface {
	// WatchSize calls changed with the new Info after each change of Blocks, and returns when ctx has ended: its error then counts
	// for nothing. It is called once, and stays outside Info.Concurrency. A block size never changes.
	WatchSize(ctx context.Context, changed func(Info)) error
}

// Condition is how a store is.
type Condition uint8

// The conditions.
const (
	// ConditionGood: all is well.
	ConditionGood Condition = iota
	// ConditionDegraded: it works, and somebody should look at it, such as a mirror with a broken half.
	ConditionDegraded
	// ConditionFailing: data are in danger.
	ConditionFailing
)

// String names the condition.
func (c Condition) String() string {
	switch c {
	case ConditionGood:
		return "good"
	case ConditionDegraded:
		return "degraded"
	case ConditionFailing:
		return "failing"
	}
	return fmt.Sprintf("condition %d", uint8(c))
}

// Health is a store's report about itself.
type Health struct {
	Condition Condition
	// Text is one line for the operator, empty if there is nothing to say.
	Text string
}

// HealthReporter is a Store that knows how its medium is.
type HealthReporter interface {
	// Health reports. It is asked every now and then, beside requests, and stays outside Info.Concurrency.
	Health(ctx context.Context) (Health, error)
}

// SanitizeMethod says how thoroughly.
type SanitizeMethod uint8

// The methods.
const (
	// SanitizeOverwrite writes zeroes over everything.
	SanitizeOverwrite SanitizeMethod = iota + 1
	// SanitizeBlock erases every block by the medium's own means, unmapped and spare ones too.
	SanitizeBlock
	// SanitizeCrypto throws the medium's encryption key away.
	SanitizeCrypto
)

// String names the method.
func (m SanitizeMethod) String() string {
	switch m {
	case SanitizeOverwrite:
		return "overwrite"
	case SanitizeBlock:
		return "block erase"
	case SanitizeCrypto:
		return "cryptographic erase"
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// Sanitizer is a Store that can destroy everything that it holds.
type Sanitizer interface {
	// Sanitize destroys the content, in every cache and copy that the store knows of, and returns when it is gone for good. Nothing else is
	// asked of the store meanwhile, but Health. progress is told how far it is, 0 to 1000; it does not block. A method
	// that the store cannot do fails with CodeNotSupported and destroys nothing.
	Sanitize(ctx context.Context, method SanitizeMethod, progress func(permille int)) error
}
