package mad

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// A transcript is a conversation with one agent, a directive a line:
//
//	unit, controller, service   the agent's first table; after "update", its next one
//	== title                    begins an exchange:
//	request [length]            the datagram, by default of 256 bytes; rows of bytes follow, those left out are zero
//	answer                      ours; rows follow
//	answer none reason          ours is none, for that reason
//	linux, linux none           the recorded one of Linux's agent. Without an "answer", ours is the same
//	because reason              why ours differs from Linux's

// exchange is a request and its answers.
type exchange struct {
	title         string
	request       []byte
	answer, linux datagram
	because       string
	table         []Controller // the table from here on, if updated
	updated       bool
	cfg           Config
	rows          *[]byte
}

// datagram is an answer, as far as it is given.
type datagram struct {
	given bool
	drop  string // why there is none; "timeout" if recorded
	bytes []byte
}

func (d datagram) equal(o datagram) bool { return d.drop == o.drop && bytes.Equal(d.bytes, o.bytes) }

func TestTranscripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 9 {
		t.Fatalf("transcripts: %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			var a *Agent
			for _, x := range readTranscript(t, name) {
				a = x.agent(t, a)
				got, want := x.run(a), x.expected(t)
				if !got.equal(want) {
					t.Errorf("%s:\n got %s\nwant %s", x.title, got, want)
				}
			}
		})
	}
}

// TestTranscriptsCoverEveryOutcome is about the transcripts themselves.
func TestTranscriptsCoverEveryOutcome(t *testing.T) {
	names, _ := filepath.Glob("testdata/*.txt")
	missing := map[string]bool{}
	for d := DropNone + 1; d < DropReasons; d++ {
		missing[d.String()] = true
	}
	for _, s := range []ib.Status{ib.StatusOK, ib.StatusBadVersion, ib.StatusBadMethod, ib.StatusBadMethodAttr, ib.StatusBadAttrValue, StatusNoIOC, StatusNoServices} {
		missing[StatusText(s)] = true
	}
	for _, name := range names {
		for _, x := range readTranscript(t, name) {
			if want := x.expected(t); want.drop != "" {
				delete(missing, want.drop)
			} else {
				delete(missing, StatusText(ib.MAD(want.bytes).Status()))
			}
		}
	}
	for m := range missing {
		t.Errorf("no transcript ends in %q", m)
	}
}

// expected is our answer by the transcript.
func (x *exchange) expected(t *testing.T) datagram {
	t.Helper()
	switch {
	case !x.answer.given && !x.linux.given:
		t.Fatalf("%s: no answer is given", x.title)
	case !x.answer.given:
		return x.linux
	case x.linux.given && (x.answer.equal(x.linux) || x.because == ""):
		t.Fatalf("%s: an answer that differs from Linux's has a reason, and one that does not is not given", x.title)
	}
	return x.answer
}

func (x *exchange) agent(t *testing.T, a *Agent) *Agent {
	t.Helper()
	var err error
	switch {
	case a == nil:
		a, err = New(x.cfg, x.table)
	case x.updated:
		a, err = a.Update(x.table)
	}
	if err != nil {
		t.Fatalf("%s: %v", x.title, err)
	}
	return a
}

func (x *exchange) run(a *Agent) datagram {
	b, drop := a.Answer(nil, x.request)
	if drop != DropNone {
		return datagram{drop: drop.String(), bytes: b}
	}
	return datagram{bytes: b}
}

func (d datagram) String() string {
	if d.drop != "" {
		return "none, " + d.drop
	}
	return "\n" + hex.Dump(d.bytes)
}

func readTranscript(t *testing.T, name string) []exchange {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []exchange
	var head exchange
	x := &head
	for i, line := range strings.Split(string(file), "\n") {
		if title, ok := strings.CutPrefix(line, "== "); ok {
			next := exchange{title: title}
			if len(all) == 0 || head.updated {
				next.cfg, next.table, next.updated = head.cfg, head.table, head.updated
				head.updated = false
			}
			all = append(all, next)
			x = &all[len(all)-1]
			continue
		}
		if line == "update" {
			head, x = exchange{updated: true}, &head
			continue
		}
		if err := x.line(line); err != nil {
			t.Fatalf("%s:%d: %v", name, i+1, err)
		}
	}
	return all
}

// line reads a directive of the exchange, or of the table before it.
func (x *exchange) line(s string) error {
	word, rest, _ := strings.Cut(s, " ")
	switch word {
	case "#":
		return nil
	case "":
		if strings.TrimSpace(s) == "" {
			return nil
		}
		return x.row(strings.TrimSpace(s))
	case "unit":
		_, err := fmt.Sscanf(rest, "slots=%d response=%d change=%d", &x.cfg.Slots, &x.cfg.ResponseTime, &x.cfg.ChangeID)
		return err
	case "controller":
		return x.controller(rest)
	case "service":
		c := &x.table[len(x.table)-1]
		var s Service
		_, err := fmt.Sscanf(rest, "%s %x", &s.Name, &s.ID)
		c.Services = append(c.Services, s)
		return err
	case "request":
		return x.begin(rest)
	case "answer":
		return x.answer.begin(rest, &x.rows)
	case "linux":
		return x.linux.begin(rest, &x.rows)
	case "because":
		x.because = rest
		return nil
	}
	return errors.New("no such directive")
}

func (x *exchange) controller(s string) error {
	c := Controller{Protocol: SRP, Operations: SRPOperations}
	_, err := fmt.Sscanf(s, "guid=%x vendor=%x device=%x version=%x subvendor=%x subsystem=%x depth=%d reads=%d send=%d transfer=%d id=%q",
		&c.GUID, &c.Vendor, &c.Device, &c.DeviceVersion, &c.SubsystemVendor, &c.Subsystem, &c.SendDepth, &c.ReadDepth, &c.SendSize, &c.TransferSize, &c.ID)
	x.table = append(x.table, c)
	return err
}

func (x *exchange) begin(length string) error {
	n := ib.MADSize
	if length != "" {
		var err error
		if n, err = strconv.Atoi(length); err != nil {
			return err
		}
	}
	x.request, x.rows = make([]byte, n), &x.request
	return nil
}

func (d *datagram) begin(rest string, rows **[]byte) error {
	d.given = true
	if why, none := strings.CutPrefix(rest, "none"); none {
		if d.drop = strings.TrimSpace(why); d.drop == "" {
			d.drop = "timeout"
		}
		return nil
	}
	d.bytes, *rows = make([]byte, ib.MADSize), &d.bytes
	return nil
}

// row puts bytes at an offset.
func (x *exchange) row(s string) error {
	off, digits, ok := strings.Cut(s, ": ")
	at, err := strconv.ParseUint(off, 16, 16)
	if !ok || err != nil || x.rows == nil {
		return errors.New("no row of bytes")
	}
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		return err
	}
	if len(*x.rows) == 0 && bytes.Equal(b, []byte{0}) {
		return nil
	}
	if int(at)+len(b) > len(*x.rows) {
		return errors.New("row beyond the datagram")
	}
	copy((*x.rows)[at:], b)
	return nil
}
