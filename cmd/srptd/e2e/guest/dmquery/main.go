// Dmquery asks the Device Management agent of a port by the kernel's own means (ib_umad): the whole discovery first, then the requests of a
// transcript, whose answers it compares byte by byte. It exits with 1 and names the differences if there are any.
package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

// How long an answer may take, and how often the kernel asks again.
const (
	wait    = time.Second
	retries = 4
)

func main() {
	path := flag.String("umad", "/dev/infiniband/umad0", "device of the port to ask from")
	from := flag.Uint("from", 0, "index of the port's GID to ask from: of the kind that the agent's is")
	transcript := flag.String("transcript", "", "core/mad/testdata/linux.txt: compare the answers with it")
	linux := flag.Bool("linux", false, "the agent is Linux's: its answers are those that were recorded")
	sorted := flag.Bool("sorted", false, "our agent is behind the kernel's MAD layer, which answers other class versions itself, as was recorded of Linux")
	flag.Parse()
	if err := run(*path, flag.Arg(0), uint8(*from), *transcript, *linux, *sorted); err != nil {
		fmt.Fprintln(os.Stderr, "dmquery:", err)
		os.Exit(1)
	}
}

// asker asks one agent.
type asker struct {
	port *umad
	to   ib.GID
	from uint8
}

func run(path, gid string, from uint8, transcript string, linux, sorted bool) error {
	to, err := netip.ParseAddr(gid)
	if err != nil {
		return err
	}
	port, err := openUMAD(path)
	if err != nil {
		return err
	}
	a := &asker{port, ib.GID(to.As16()), from}
	unit, err := a.discover()
	if err != nil || transcript == "" {
		return err
	}
	list, guid, err := readTranscript(transcript)
	if err != nil {
		return err
	}
	if linux {
		return a.compareLinux(list, unit, guid)
	}
	if sorted {
		for i := range list {
			list[i].sortedByKernel()
		}
	}
	return a.compareOurs(list, unit)
}

// ask makes one query of a discovery.
func (a *asker) ask(q mad.Query, tid uint32) ([]byte, error) {
	b, err := a.port.exchange(a.to, a.from, q.Append(nil, tid), wait, retries)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, errors.New("no answer")
	}
	return q.Parse(b, tid)
}

// discover finds what is behind the port, and prints it.
func (a *asker) discover() (mad.Unit, error) {
	var d mad.Discovery
	tid := uint32(1)
	for q, more := d.Next(); more; q, more = d.Next() {
		d.Answer(a.ask(q, tid))
		tid++
	}
	unit, err := d.Result()
	if err != nil {
		return unit, err
	}
	fmt.Printf("unit slots=%d change=%d\n", unit.Slots, unit.ChangeID)
	for _, f := range unit.Found {
		if f.Err != nil {
			return unit, f.Err
		}
		c := &f.Controller
		fmt.Printf("controller slot=%d guid=%v depth=%d send=%d transfer=%d id=%q\n", f.Slot, c.GUID, c.SendDepth, c.SendSize, c.TransferSize, c.ID)
		for _, s := range c.Services {
			line, ok := c.AddTarget(s, a.to, ib.PKeyDefault)
			if !ok {
				return unit, fmt.Errorf("service %q is not that of an SRP target", s.Name)
			}
			fmt.Println(line)
		}
	}
	if len(unit.Found) == 0 {
		return unit, errors.New("no controller")
	}
	return unit, nil
}

// answer is the answer to a recorded request.
func (a *asker) answer(r *recorded) ([]byte, error) {
	tries := retries
	if r.linux == nil {
		tries = 1 // it may be right that there is none
	}
	b, err := a.port.exchange(a.to, a.from, r.request, wait, tries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.title, err)
	}
	return sameRun(b), nil
}

// compareLinux holds the answers of Linux's agent against the recorded ones, which are about a controller with another GUID.
func (a *asker) compareLinux(list []recorded, unit mad.Unit, guid ib.GUID) error {
	var errs []error
	deviations := 0
	for i := range list {
		r := &list[i]
		got, err := a.answer(r)
		if err != nil {
			return err
		}
		got = withGUID(got, unit.Found[0].Controller.GUID, guid)
		errs = append(errs, differ(r.title, got, sameRun(r.linux)))
		if !bytes.Equal(got, sameRun(r.ours())) {
			deviations++
		}
	}
	fmt.Printf("%d answers are as recorded, ours differs in %d of them\n", len(list), deviations)
	return errors.Join(errs...)
}

// compareOurs holds the answers of our agent against the transcript, header by header, and against what an agent of the same table
// answers in this process, byte by byte.
func (a *asker) compareOurs(list []recorded, unit mad.Unit) error {
	model, err := a.model(unit)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list {
		r := &list[i]
		got, err := a.answer(r)
		if err != nil {
			return err
		}
		want, drop := model.Answer(nil, r.request)
		if drop != mad.DropNone {
			want = nil
		}
		if r.byKernel {
			want = r.linux
		}
		errs = append(errs, differ(r.title, got, sameRun(want)))
		if got != nil && r.ours() != nil {
			errs = append(errs, differ(r.title+", header", got[:ib.MADHeaderSize], sameRun(r.ours())[:ib.MADHeaderSize]))
		}
	}
	fmt.Printf("%d answers are those of the transcript\n", len(list))
	return errors.Join(errs...)
}

// model is an agent in this process with the table that was found.
func (a *asker) model(unit mad.Unit) (*mad.Agent, error) {
	b, err := a.ask(mad.GetClassPortInfo(), 1)
	if err != nil {
		return nil, err
	}
	info, err := mad.ParseClassPortInfo(b)
	if err != nil {
		return nil, err
	}
	cfg := mad.Config{Slots: unit.Slots, ResponseTime: info.ResponseTime(), ChangeID: unit.ChangeID}
	var table []mad.Controller
	for _, f := range unit.Found {
		table = append(table, f.Controller)
	}
	return mad.New(cfg, table)
}

func differ(title string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("%s:\n got\n%swant\n%s", title, dump(got), dump(want))
}

func dump(b []byte) string {
	if b == nil {
		return "none\n"
	}
	return hex.Dump(b[:min(len(b), 160)])
}
