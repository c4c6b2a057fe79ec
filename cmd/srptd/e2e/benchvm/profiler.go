package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// layProfiler copies this host's perf and its libraries into dir. The guest has the same or a newer C library.
func layProfiler(ctx context.Context, dir string) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return fmt.Errorf("a profile needs perf on this host (Debian: linux-perf): %w", err)
	}
	out, err := exec.CommandContext(ctx, "ldd", perf).Output()
	if err != nil {
		return fmt.Errorf("libraries of %s: %w", perf, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := libraries(out)
	if err != nil {
		return fmt.Errorf("%s: %w", perf, err)
	}
	for _, name := range append(files, perf) {
		if err := copyProgram(filepath.Join(dir, filepath.Base(name)), name); err != nil {
			return err
		}
	}
	return nil
}

// libraries are the paths that ldd printed: "NAME => PATH (ADDRESS)", or "PATH (ADDRESS)" for the loader, which the guest has.
func libraries(ldd []byte) (paths []string, err error) {
	for line := range strings.Lines(string(ldd)) {
		name, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		path, _, _ = strings.Cut(path, " (")
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("library %s: %s", name, path)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
