package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

const blockSize = 512

// store is a file that is read and written with plain calls.
type store struct {
	f        *os.File
	lock     string // of the fault amnesiac
	size     uint64
	readOnly bool
	// memory holds what the fault forgetful does not write.
	memory []byte
	mu     sync.Mutex
}

func settings(config map[string]string) (path string, size int64, readOnly bool, err error) {
	path, size = "", 4<<20
	for k, v := range config {
		ok := true
		switch k {
		case "path":
			path = v
		case "read_only":
			readOnly, err = strconv.ParseBool(v)
		case "size":
			size, ok = schema.ParseSize(v)
			ok = ok && size >= 1<<20 && size <= 1<<30
			if fault("lax") {
				size, ok = 4<<20, true
			}
		default:
			if fault("open-minded") {
				continue
			}
			err = errors.New("no such setting")
		}
		if !ok {
			err = errors.New("cannot be")
		}
		if err != nil {
			return "", 0, false, fmt.Errorf("%s: %w", k, err)
		}
	}
	if path == "" {
		if fault("modest") {
			f, err := os.CreateTemp("", "bare")
			if err != nil {
				return "", 0, false, err
			}
			return f.Name(), size, readOnly, f.Close()
		}
		return "", 0, false, errors.New("path: must be set")
	}
	return path, size, readOnly, nil
}

func openStore(ctx context.Context, config map[string]string) (*store, error) {
	path, size, readOnly, err := settings(config)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &store{f: f, size: uint64(size), readOnly: readOnly}
	err = s.fence(ctx)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil && fault("forgetful") {
		s.memory = make([]byte, size)
		_, err = f.ReadAt(s.memory, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *store) fence(ctx context.Context) error {
	if fault("unfenced") {
		return nil
	}
	if fault("amnesiac") {
		s.lock = s.f.Name() + ".lock" // stays behind after kill -9
		f, err := os.OpenFile(s.lock, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	for unix.Flock(int(s.f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			return errors.New("another process has it")
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (s *store) info() *backstorepb.Info {
	return &backstorepb.Info{BlockSize: blockSize, Blocks: s.size / blockSize, WriteCache: true, ReadOnly: s.readOnly}
}

// do runs an operation and returns its code.
func (s *store) do(op uint8, p []byte, off uint64) uint16 {
	switch {
	case op != 3 && (off > s.size || uint64(len(p)) > s.size-off):
		if fault("roomy") {
			return 0
		}
		return 6
	case op == 2 && s.readOnly:
		return 5
	}
	if s.memory != nil {
		return s.remember(op, p, off)
	}
	var err error
	switch op {
	case 1:
		_, err = s.f.ReadAt(p, int64(off))
	case 2:
		_, err = s.f.WriteAt(p, int64(off))
	case 3:
		err = s.f.Sync()
	}
	if err != nil {
		return 1
	}
	return 0
}

func (s *store) remember(op uint8, p []byte, off uint64) uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op {
	case 1:
		copy(p, s.memory[off:])
	case 2:
		copy(s.memory[off:], p)
	}
	return 0
}

// close writes what was kept; an orderly end loses nothing.
func (s *store) close() {
	if s.memory != nil {
		_, _ = s.f.WriteAt(s.memory, 0)
	}
	if s.lock != "" {
		_ = os.Remove(s.lock)
	}
	_ = s.f.Close()
}
