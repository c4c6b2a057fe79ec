package backstore_test

import (
	"context"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

type plain struct{ backstore.Store }

type unmapper struct{ backstore.Store }

func (unmapper) Unmap(context.Context, int64, int64) error { return nil }

type able struct{ unmapper }

func (able) WriteZeroes(context.Context, int64, int64, backstore.Flags) error { return nil }
func (able) CompareAndWrite(context.Context, []byte, []byte, int64, backstore.Flags) error {
	return nil
}
func (able) WriteSame(context.Context, []byte, int64, int64, backstore.Flags) error { return nil }
func (able) WatchSize(context.Context, func(backstore.Info)) error                  { return nil }
func (able) Health(context.Context) (backstore.Health, error)                       { return backstore.Health{}, nil }
func (able) Sanitize(context.Context, backstore.SanitizeMethod, func(int)) error    { return nil }

type limited struct{ able }

func (limited) Powers() backstore.Powers { return backstore.PowerUnmap | backstore.PowerHealth | 1<<30 }

func TestPowersFollowFromTheMethods(t *testing.T) {
	const every = backstore.PowerSanitize<<1 - 1
	for name, c := range map[string]struct {
		store backstore.Store
		want  backstore.Powers
		text  string
	}{
		"five methods": {plain{}, 0, "none"},
		"one":          {unmapper{}, backstore.PowerUnmap, "unmap"},
		"all": {able{}, every,
			"unmap, write zeroes, compare and write, write same, resize notice, health, sanitize"},
		"less than its methods": {limited{}, backstore.PowerUnmap | backstore.PowerHealth, "unmap, health"},
	} {
		if got := backstore.PowersOf(c.store); got != c.want || got.String() != c.text {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := backstore.Powers(1 << 30).String(); got != "unknown 0x40000000" {
		t.Error(got)
	}
}
