package descriptor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingEndsBeforeTheDeadlineSoThatTheReasonIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := Until(ctx, "somebody has it", func() (bool, error) { return true, nil })
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "somebody has it") {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != 27*time.Second || ctx.Err() != nil {
			t.Errorf("gave up after %v, the caller's own context: %v", took, ctx.Err())
		}
	})
}

func TestWaitingEndsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := Until(ctx, "somebody has it", func() (bool, error) { return true, nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestWaitingEndsWithTheFirstTryThatIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, broken := 0, errors.New("broken")
		err := Until(t.Context(), "", func() (bool, error) {
			tries++
			return tries < 3, broken
		})
		if tries != 3 || err != broken {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}
