package bridge

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
)

// explain says in an operator's words why a plugin could not be started. go-plugin's own words are about itself.
func (p *Process) explain(ctx context.Context, o Options, err error) error {
	if p.run.failure != nil {
		if o.Isolation.PIDNamespace && errors.Is(p.run.failure, unix.EPERM) {
			return fmt.Errorf("its manifest asks for a PID namespace, which this host may not make (%w): run it as root, or set "+
				"pid_namespace: false", p.run.failure)
		}
		return explainExec(o.Path, p.run.failure)
	}
	if p.run.pid() == 0 {
		return err
	}
	core, major, shaken := p.run.out.handshake()
	how, itself := p.run.ended()
	switch {
	case shaken && core != plugin.CoreProtocolVersion:
		return fmt.Errorf("it speaks version %d of go-plugin's handshake, this host %d: rebuild the plugin with this host's SDK",
			core, plugin.CoreProtocolVersion)
	case shaken && !slices.Contains(o.Majors, major):
		return CheckMajors([]int{major}, o.Majors)
	case itself:
		return fmt.Errorf("it ended before it could be used (%s); %s", how, p.evidence)
	case shaken:
		return fmt.Errorf("it does not answer after its handshake: %w; %s", err, p.evidence)
	case ctx.Err() != nil || strings.Contains(err.Error(), "timeout"):
		return fmt.Errorf("it did not print its handshake in time: is it a gosrpt plugin? %s", p.evidence)
	}
	return fmt.Errorf("it closed its stdout without a handshake: is it a gosrpt plugin? %s", p.evidence)
}

// CheckMajors tells whether a plugin and a host have a major version in common, and otherwise which side to upgrade.
func CheckMajors(theirs, ours []int) error {
	if len(theirs) == 0 || slices.ContainsFunc(theirs, func(m int) bool { return slices.Contains(ours, m) }) {
		return nil
	}
	mend := "upgrade this host, or install an older version of the plugin"
	if slices.Max(theirs) < slices.Min(ours) {
		mend = "upgrade the plugin: rebuild it with a newer SDK"
	}
	return fmt.Errorf("it speaks major version %s of the plugin protocol, this host speaks %s: %s", list(theirs), list(ours), mend)
}

func list(majors []int) string {
	s := make([]string, len(majors))
	for i, m := range slices.Sorted(slices.Values(majors)) {
		s[i] = strconv.Itoa(m)
	}
	return strings.Join(s, ", ")
}

// explainExec explains why a file could not be executed.
func explainExec(path string, err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return err
	}
	switch {
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("it is not executable: chmod +x it, and check that its file system is not mounted noexec and that the user it runs as can reach it: %w", p.Err)
	case errors.Is(err, unix.ETXTBSY):
		return fmt.Errorf("it is still being written after %v: %w", busyFor, p.Err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s: %w", whatIs(path), p.Err)
	case errors.Is(err, unix.ENOENT):
		if _, gone := os.Stat(path); gone == nil {
			return fmt.Errorf("the program that it needs to run, %s, is not there: %w", interpreter(path), p.Err)
		}
	}
	return p.Err
}

// whatIs says what a file is that the kernel cannot execute.
func whatIs(path string) string {
	f, err := elf.Open(path)
	if err == nil {
		defer f.Close()
		return fmt.Sprintf("it is a program for %s (%s), and this machine is %s: install the one built for it",
			strings.TrimPrefix(f.Machine.String(), "EM_"), f.Class, runtime.GOARCH)
	}
	return fmt.Sprintf("it is neither a program nor a script with #! (it begins with %q): is it the right file?", head(path, 32))
}

func head(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, n))
	return b
}

// interpreter is the program that a script or a dynamically linked program names.
func interpreter(path string) string {
	if f, err := elf.Open(path); err == nil {
		defer f.Close()
		if s := f.Section(".interp"); s != nil {
			b, _ := s.Data()
			return strings.TrimRight(string(b), "\x00")
		}
		return "its loader"
	}
	line, _, _ := strings.Cut(string(head(path, 256)), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#!"))
}
