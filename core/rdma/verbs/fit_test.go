//go:build verbs

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// card is a device that grants queue pairs.
type card struct {
	grant  func(ask room) (room, error)
	asked  []room
	living int
}

func (c *card) create(ask room) (room, error) {
	c.asked = append(c.asked, ask)
	granted, err := c.grant(ask)
	if err == nil {
		c.living++
	}
	return granted, err
}

func (c *card) destroy() { c.living-- }

// allowing refuses with an errno what no rule allows.
func allowing(code unix.Errno, allows func(room) bool) func(room) (room, error) {
	return func(ask room) (room, error) {
		if allows(ask) {
			return ask, nil
		}
		return room{}, fmt.Errorf("create queue pair: %w", code)
	}
}

// sends are the lengths of the send queue that were asked for.
func (c *card) sends() (list []uint32) {
	for _, r := range c.asked {
		list = append(list, r.sends)
	}
	return list
}

func TestQueuePairIsWhatTheDeviceGrants(t *testing.T) {
	want := room{sends: 512, recvs: 64, elements: 8, inline: 64}
	for _, row := range []struct {
		name   string
		grant  func(room) (room, error)
		got    room
		asked  int
		narrow []uint32 // sends asked for, if they are of interest
	}{
		{"all of it", func(r room) (room, error) { return r, nil }, want, 1, nil},
		{"more than asked for, of which no longer lists are used", func(r room) (room, error) { return room{1024, 128, 30, 96}, nil },
			room{1024, 128, 8, 96}, 1, nil},
		{"no inline data", allowing(unix.EINVAL, func(r room) bool { return r.inline == 0 }), room{512, 64, 8, 0}, 2, nil},
		{"a send queue of 100, by ENOMEM", allowing(unix.ENOMEM, func(r room) bool { return r.sends <= 100 }), room{64, 64, 8, 0}, 5,
			[]uint32{512, 512, 256, 128, 64}},
		{"a send queue of 16", allowing(unix.EINVAL, func(r room) bool { return r.sends <= 16 }), room{16, 64, 8, 0}, 7,
			[]uint32{512, 512, 256, 128, 64, 32, 16}},
		{"6 elements with any send queue", allowing(unix.EINVAL, func(r room) bool { return r.elements <= 6 }), room{512, 64, 4, 0}, 8,
			[]uint32{512, 512, 256, 128, 64, 32, 16, 512}},
		{"one element and few sends", allowing(unix.ENOMEM, func(r room) bool { return r.elements == 1 && r.sends < 50 }), room{32, 64, 1, 0}, 7 + 6 + 6 + 5, nil},
		{"so much memory", allowing(unix.ENOMEM, func(r room) bool { return (r.sends+r.recvs)*r.elements <= 600 }), room{64, 64, 4, 0}, 7 + 4, nil},
		{"fewer elements without an error", func(r room) (room, error) { r.elements = 6; return r, nil }, room{512, 64, 6, 64}, 1, nil},
		{"a shorter send queue without an error", func(r room) (room, error) { r.sends = 40; return r, nil }, room{40, 64, 8, 64}, 1, nil},
		{"fewer receives, until there are fewer sends", func(r room) (room, error) { r.recvs = min(r.recvs, (256-r.sends/2)/2); return r, nil },
			room{256, 64, 8, 0}, 3, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &card{grant: row.grant}
			got, err := fit(want, room{8192, 8192, 32, 0}, c.create, c.destroy)
			if err != nil || got != row.got {
				t.Fatalf("granted %+v, %v, want %+v", got, err, row.got)
			}
			if len(c.asked) != row.asked || row.narrow != nil && !slices.Equal(c.sends(), row.narrow) {
				t.Errorf("asked %d times, want %d: %v", len(c.asked), row.asked, c.asked)
			}
			if c.living != 1 {
				t.Errorf("%d queue pairs are left", c.living)
			}
		})
	}
}

func TestShortSendQueueIsNotHalved(t *testing.T) {
	c := &card{grant: allowing(unix.EINVAL, func(r room) bool { return r.elements == 1 })}
	got, err := fit(room{sends: 20, recvs: 1, elements: 2}, room{}, c.create, c.destroy)
	if err != nil || got.sends != 20 || !slices.Equal(c.sends(), []uint32{20, 20}) {
		t.Errorf("%+v, %v after %v", got, err, c.asked)
	}
}

// TestDeviceThatGrantsNothingIsNamedWithWhatWasAsked: whoever reads the error learns what was asked for, first and last, what the
// device says it has, and what can be done.
func TestDeviceThatGrantsNothingIsNamedWithWhatWasAsked(t *testing.T) {
	want, limits := room{sends: 512, recvs: 64, elements: 2, inline: 64}, room{8192, 4096, 32, 0}
	for _, row := range []struct {
		name  string
		grant func(room) (room, error)
		code  unix.Errno
	}{
		{"EINVAL", allowing(unix.EINVAL, func(room) bool { return false }), unix.EINVAL},
		{"ENOMEM", allowing(unix.ENOMEM, func(room) bool { return false }), unix.ENOMEM},
		{"no elements", func(r room) (room, error) { r.elements = 0; return r, nil }, unix.EINVAL},
		{"no send queue", func(r room) (room, error) { r.sends = 0; return r, nil }, unix.EINVAL},
		{"too few receives", func(r room) (room, error) { r.recvs--; return r, nil }, unix.EINVAL},
	} {
		c := &card{grant: row.grant}
		_, err := fit(want, limits, c.create, c.destroy)
		if !errors.Is(err, rdma.ErrFull) || !errors.Is(err, row.code) {
			t.Errorf("%s: %v, want ErrFull and %v", row.name, err, row.code)
			continue
		}
		if c.living != 0 || len(c.asked) != 1+2*6 {
			t.Errorf("%s: asked %d times, %d queue pairs are left", row.name, len(c.asked), c.living)
		}
		text := (&Device{name: "mlx5_3"}).fail("make queue pair", err).Error()
		for _, part := range []string{"mlx5_3", "512 sends and 64 receives of 2 elements", "16 sends and 64 receives of 1 elements",
			"8192 sends and 4096 receives of 32 elements", row.code.Error(), "credits"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q does not say %q", row.name, text, part)
			}
		}
		if has := strings.Contains(text, "ulimit"); has != (row.code == unix.ENOMEM) {
			t.Errorf("%s: %q", row.name, text)
		}
	}
}

// A device that is gone, or does not let us, is not asked again.
func TestOtherErrorsEndTheAsking(t *testing.T) {
	for _, code := range []unix.Errno{unix.EIO, unix.ENODEV, unix.EPERM} {
		c := &card{grant: allowing(code, func(room) bool { return false })}
		if _, err := fit(room{512, 64, 1, 64}, room{}, c.create, c.destroy); !errors.Is(err, code) || errors.Is(err, rdma.ErrFull) || len(c.asked) != 1 {
			t.Errorf("%v: %v after %d attempts", code, err, len(c.asked))
		}
	}
}

func TestReadsAreAgreedOnByTheLesserSide(t *testing.T) {
	for _, row := range []struct {
		name            string
		own, peer, want reads
	}{
		{"equal", reads{16, 16}, reads{16, 16}, reads{16, 16}},
		{"Linux' initiator serves 4 and makes none", reads{16, 16}, reads{4, 0}, reads{4, 0}},
		{"ours is the lesser", reads{2, 3}, reads{128, 64}, reads{2, 3}},
		{"each the lesser one way", reads{2, 16}, reads{8, 1}, reads{2, 1}},
		{"the peer serves none", reads{16, 16}, reads{0, 8}, reads{0, 8}},
		{"the device makes none", reads{0, 4}, reads{16, 16}, reads{0, 4}},
		{"the most", reads{255, 255}, reads{255, 255}, reads{255, 255}},
	} {
		if got := row.own.agree(row.peer); got != row.want {
			t.Errorf("%s: %v with %v is %v, want %v", row.name, row.own, row.peer, got, row.want)
		}
	}
	for in, want := range map[[2]int]reads{{128, 16}: {16, 16}, {1, 0}: {1, 0}, {-1, 1 << 20}: {0, 16}} {
		if got := readsOf(in[0], in[1], 16); got != want {
			t.Errorf("a device of %v: %v, want %v", in, got, want)
		}
	}
}
