// Command testplugin is the plugin that the SDK's own tests start. Its stores are in a file that it maps, so that
// they survive the process, and it misbehaves on request.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "hostile":
		serveHostile(os.Args[2])
		return
	case len(os.Args) > 2 && os.Args[1] == "majors":
		serveMajors(os.Args[2:])
		return
	case len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "describe"):
		plugin.ServeBackstore(describing{well: os.Args[1] == "describe"})
		return
	case len(os.Args) > 1:
		misbehave(os.Args[1])
	}
	o := opener{}
	if len(os.Args) > 1 {
		o.how = os.Args[1]
	}
	plugin.ServeBackstore(o)
}

// misbehave does what plugins do in the wild.
func misbehave(how string) {
	switch how {
	case "noisy":
		fmt.Println("hello, I print before the handshake")
		fmt.Println(strings.Repeat("x", 300_000))
	case "noisy-after":
		out := os.Stdout // the SDK replaces os.Stdout, not descriptor 1
		go func() {
			for range 20 {
				out.WriteString(strings.Repeat("y", 100_000) + "\n")
				time.Sleep(10 * time.Millisecond)
			}
		}()
	case "exit":
		fmt.Fprintln(os.Stderr, "I cannot start")
		os.Exit(3)
	case "child":
		// A grandchild that outlives the plugin and keeps its output open.
		if _, err := os.StartProcess("/bin/sleep", []string{"sleep", "30"}, &os.ProcAttr{
			Files: []*os.File{nil, os.Stdout, os.Stderr},
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "child-apart":
		// A grandchild that has left the process group.
		if _, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{
			Files: []*os.File{nil, nil, nil}, Sys: &syscall.SysProcAttr{Setsid: true},
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "flood":
		line := strings.Repeat("z", 100) + "\n"
		go func() {
			for range 50_000 {
				os.Stderr.WriteString(line) // descriptor 2, and after the handshake go-plugin's own way
				fmt.Println(strings.Repeat("w", 100_000))
			}
			fmt.Fprintln(os.Stderr, "the flood is over")
		}()
	case "complain":
		fmt.Fprintln(os.Stderr, "[WARN] at the start")
	case "mute":
		select {}
	}
}

// opener opens stores; how is what goes wrong with that: no-open, die-open, hang-open, or other-store for half of it.
type opener struct{ how string }

// begin does what goes wrong before anything is opened.
func (o opener) begin() error {
	switch o.how {
	case "no-open":
		return errors.New("this plugin opens nothing")
	case "die-open":
		os.Exit(4)
	case "hang-open":
		select {}
	}
	return nil
}

// Open opens a store. Keys: path, blocks, block-size, mode (call or submit), concurrency, delay (a duration for
// each call), close-delay (the same for Close, which then makes the file path.closed), read-only, fail (a code for each request), environment (returned as the serial), try (system
// calls, whose outcome is the serial), print (a line for stderr), powers (it has all of them), gate (a file: while there is one, requests wait).
func (o opener) Open(ctx context.Context, config map[string]string) (backstore.Store, error) {
	s := &store{info: backstore.Info{BlockSize: 512, Blocks: 2048, WriteCache: true, FUA: true}}
	if err := o.begin(); err != nil {
		return nil, err
	}
	mode, powers := "call", false
	for k, v := range config {
		var err error
		switch k {
		case "path":
			s.path = v
		case "blocks":
			s.info.Blocks, err = strconv.ParseUint(v, 10, 40)
		case "block-size":
			var n uint64
			n, err = strconv.ParseUint(v, 10, 32)
			s.info.BlockSize = uint32(n)
		case "mode":
			mode = v
		case "concurrency":
			s.info.Concurrency, err = strconv.Atoi(v)
		case "delay":
			s.delay, err = time.ParseDuration(v)
		case "close-delay":
			s.closeDelay, err = time.ParseDuration(v)
		case "read-only":
			s.info.ReadOnly, err = strconv.ParseBool(v)
		case "fail":
			var n uint64
			n, err = strconv.ParseUint(v, 10, 16)
			s.fail = backstore.Code(n)
		case "print":
			fmt.Fprintln(os.Stderr, v)
		case "try":
			s.info.Serial, err = try(v)
		case "powers":
			powers, err = strconv.ParseBool(v)
		case "gate":
			s.gate = v
		case "environment":
			s.info.Serial = strings.Join(os.Environ(), "\n")
		default:
			err = errors.New("there is no such key")
		}
		if err != nil {
			return nil, &backstore.Error{Code: backstore.CodeInvalid, Err: fmt.Errorf("%s=%q: %w", k, v, err)}
		}
	}
	if o.how == "other-store" {
		s.info.Blocks /= 2
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	switch {
	case powers && mode == "submit":
		return ableAsync{newAble(s)}, nil
	case powers:
		return newAble(s), nil
	case mode == "submit":
		return async{s}, nil
	}
	return s, nil
}

// store keeps its blocks in a mapped file, locked against a second process.
type store struct {
	info       backstore.Info
	path       string
	delay      time.Duration
	closeDelay time.Duration
	gate       string
	fail       backstore.Code
	file       *os.File
	data       []byte
}

func (s *store) open(ctx context.Context) error {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if s.path == "" {
		f, err = os.CreateTemp("", "testplugin")
	}
	if err != nil {
		return err
	}
	s.file = f
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			f.Close()
			return &backstore.Error{Code: backstore.CodeBusy, Err: errors.New("another process has the store")}
		case <-time.After(time.Millisecond):
		}
	}
	size := int64(s.info.Blocks) * int64(s.info.BlockSize)
	if err := f.Truncate(size); err != nil {
		return err
	}
	s.data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (s *store) Info() backstore.Info { return s.info }

func (s *store) begin() error {
	if s.delay > 0 {
		time.Sleep(s.delay)
	}
	for s.gate != "" {
		if _, err := os.Stat(s.gate); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if s.fail != 0 {
		return &backstore.Error{Code: s.fail}
	}
	return nil
}

func (s *store) Read(_ context.Context, p []byte, off int64) error {
	if err := s.begin(); err != nil {
		return err
	}
	copy(p, s.data[off:])
	return nil
}

// Write copies, and a block of the word EXIT ends the process after half of it, as a crash would.
func (s *store) Write(_ context.Context, p []byte, off int64, _ backstore.Flags) error {
	if err := s.begin(); err != nil {
		return err
	}
	if bytes.HasPrefix(p, []byte("EXIT")) {
		copy(s.data[off:], p[:len(p)/2])
		os.Exit(9)
	}
	copy(s.data[off:], p)
	return nil
}

func (s *store) Flush(context.Context) error { return s.begin() }

func (s *store) Close() error {
	if s.closeDelay > 0 {
		time.Sleep(s.closeDelay)
		if err := os.WriteFile(s.path+".closed", nil, 0o600); err != nil {
			return err
		}
	}
	return errors.Join(unix.Munmap(s.data), s.file.Close())
}

// async is the store as a Submitter that completes from another goroutine.
type async struct{ *store }

func (a async) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	reqs = append([]backstore.Request(nil), reqs...)
	go func() {
		ctx := context.Background()
		for _, r := range reqs {
			var err error
			switch r.Op {
			case backstore.OpRead:
				err = a.Read(ctx, r.Data, r.Off)
			case backstore.OpWrite:
				err = a.Write(ctx, r.Data, r.Off, r.Flags)
			case backstore.OpFlush:
				err = a.Flush(ctx)
			}
			done(backstore.Result{Tag: r.Tag, Code: backstore.CodeOf(err)})
		}
	}()
}
