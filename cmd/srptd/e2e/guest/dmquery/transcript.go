package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

// recorded is an exchange of core/mad/testdata/linux.txt.
type recorded struct {
	title   string
	request []byte
	linux   []byte // what Linux's agent answered; nil: nothing
	answer  []byte // what ours does, if it differs
	because string
	// byKernel: the kernel's MAD layer answers, before an agent sees the request.
	byKernel bool
}

// sortedByKernel makes it an exchange with an agent that is behind the kernel's MAD layer, which knows agents by class version.
func (r *recorded) sortedByKernel() {
	if ib.MAD(r.request).ClassVersion() != mad.ClassVersion {
		r.byKernel, r.because = true, ""
	}
}

// ours is our answer.
func (r *recorded) ours() []byte {
	if r.because != "" {
		return r.answer
	}
	return r.linux
}

// readTranscript reads the exchanges and the GUID of the controller that they are about.
func readTranscript(path string) (list []recorded, guid ib.GUID, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	var rows *[]byte
	for i, line := range strings.Split(string(b), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "controller":
			_, err = fmt.Sscanf(rest, "guid=%x", &guid)
		case "==":
			list = append(list, recorded{title: rest})
		case "request", "linux", "answer":
			r := &list[len(list)-1]
			rows = map[string]*[]byte{"request": &r.request, "linux": &r.linux, "answer": &r.answer}[word]
			if rest != "none" {
				*rows = make([]byte, ib.MADSize)
			}
		case "because":
			list[len(list)-1].because = rest
		case "":
			if line != "" {
				err = putRow(*rows, strings.TrimSpace(line))
			}
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return list, guid, nil
}

// putRow puts the bytes of a line such as "040: 00 01" at their offset.
func putRow(b []byte, line string) error {
	off, digits, _ := strings.Cut(line, ": ")
	at, err := strconv.ParseUint(off, 16, 8)
	if err != nil {
		return err
	}
	row, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	copy(b[min(int(at), len(b)):], row)
	return err
}

// sameRun makes two datagrams of different runs comparable: the upper half of the transaction id is the sender's kernel's.
func sameRun(b []byte) []byte {
	if b == nil {
		return nil
	}
	b = bytes.Clone(b)
	copy(b[8:12], make([]byte, 4))
	return b
}

// withGUID replaces one controller's GUID by another's, as a number and in the name of its service.
func withGUID(b []byte, from, to ib.GUID) []byte {
	for _, form := range []func(ib.GUID) []byte{
		func(g ib.GUID) []byte { return fmt.Appendf(nil, "%016x", uint64(g)) },
		func(g ib.GUID) []byte { x, _ := hex.DecodeString(fmt.Sprintf("%016x", uint64(g))); return x },
	} {
		b = bytes.ReplaceAll(b, form(from), form(to))
	}
	return b
}
