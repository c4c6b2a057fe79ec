// Command filebench reads a file at random with the plugin's io_uring engine in its own process, with no host and no
// ring: what sdk/internal/hopbench holds the plugin against.
//
// It takes lines "DEPTH NANOSECONDS" from its standard input and answers each with a line of JSON: the time that it took and the
// latency of every read, in nanoseconds.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ncw/directio"

	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const (
	block    = 4096
	maxDepth = 256
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: filebench FILE")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "filebench:", err)
		os.Exit(1)
	}
}

// serve answers the lines of in until its end.
func serve(path string, in io.Reader, out io.Writer) error {
	f, err := directio.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size < block {
		return fmt.Errorf("%s has %d bytes, less than a block; %w", path, size, err)
	}
	w, err := newBell()
	if err != nil {
		return err
	}
	defer w.file.Close()
	e, err := uring.New(int(f.Fd()), size, w.fd, maxDepth, uring.Code)
	if err != nil {
		return err
	}
	defer e.Close()
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var depth int
		var d time.Duration
		if _, err := fmt.Sscan(lines.Text(), &depth, &d); err != nil || depth < 1 || depth > maxDepth {
			return fmt.Errorf("%q is no depth of 1 to %d and a time; %w", lines.Text(), maxDepth, err)
		}
		r := &reader{engine: e, bell: w, blocks: size / block, random: rand.New(rand.NewPCG(1, 2))}
		a, err := r.run(depth, d)
		if err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// answer is the measurement's result.
type answer struct {
	Elapsed time.Duration
	Took    []time.Duration
}

// reader keeps requests under way.
type reader struct {
	engine *uring.Engine
	bell   *bell
	blocks int64
	random *rand.Rand
	reqs   [maxDepth]backstore.Request
	since  [maxDepth]time.Time
	batch  []backstore.Request
	took   []time.Duration
}

func (r *reader) run(depth int, d time.Duration) (answer, error) {
	buf := directio.AlignedBlock(depth * block)
	r.batch, r.took = make([]backstore.Request, 0, maxDepth), make([]time.Duration, 0, 1<<20)
	start := time.Now()
	for i := range depth {
		r.reqs[i] = backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: buf[i*block : (i+1)*block]}
		r.next(i, start)
	}
	r.engine.Submit(r.batch)
	err := r.follow(depth, start.Add(d))
	return answer{time.Since(start), r.took}, err
}

// next puts request i, for another block, into the batch.
func (r *reader) next(i int, now time.Time) {
	r.reqs[i].Off = r.random.Int64N(r.blocks) * block
	r.since[i] = now
	r.batch = append(r.batch, r.reqs[i])
}

// follow submits again what has ended, in the batches in which it comes, until end.
func (r *reader) follow(left int, end time.Time) (err error) {
	var res [maxDepth]backstore.Result
	for left > 0 {
		n := r.engine.Poll(res[:])
		r.batch = r.batch[:0]
		for _, x := range res[:n] {
			now := time.Now()
			r.took = append(r.took, now.Sub(r.since[x.Tag]))
			if x.Code != backstore.CodeOK {
				err = fmt.Errorf("read: %v", x.Code)
			}
			if err != nil || now.After(end) {
				left--
				continue
			}
			r.next(int(x.Tag), now)
		}
		if len(r.batch) > 0 {
			r.engine.Submit(r.batch)
		}
		if n == 0 {
			if err := r.bell.wait(r.engine.Ended); err != nil {
				return err
			}
		}
	}
	return err
}
