// Package launcher is the program between a host's fork and a plugin: it keeps the process apart, as
// sdk/internal/isolation says, and becomes the plugin. The host starts its own executable as a launcher, whose main calls Run
// before anything else.
package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

const (
	// busyFor is how long an executable that is still being written is tried again, every busyStep.
	busyFor  = 5 * time.Second
	busyStep = 20 * time.Millisecond
)

// exitLaunch is the exit status of a launcher that could not become the plugin; why is on its status descriptor.
const exitLaunch = 127

// Run becomes the plugin, and does not return, if this process was started as a launcher. Otherwise it does nothing.
func Run() {
	if len(os.Args) < 2 || os.Args[0] != isolation.Name {
		return
	}
	status := os.NewFile(isolation.StatusFD, "launcher status")
	unix.CloseOnExec(isolation.StatusFD)
	_ = json.NewEncoder(status).Encode(launch(os.Args[1], os.Args[2:], os.Stderr))
	os.Exit(exitLaunch)
}

// step is a part of the way, and what an operator can do when it fails.
type step struct {
	name, mend string
	do         func() error
}

// launch returns only if it fails. It changes this thread alone, and lets it execute the plugin.
func launch(arg string, args []string, warn io.Writer) isolation.Failure {
	runtime.LockOSThread()
	var l isolation.Launch
	if err := json.Unmarshal([]byte(arg), &l); err != nil {
		return isolation.Failure{Text: "launcher: " + err.Error()}
	}
	if l.File && !l.Script {
		unix.CloseOnExec(isolation.FileFD)
	}
	rules := ruleset{fd: -1}
	for _, s := range []step{
		{"set the resource limits", "start the host with enough privileges, or ask for less in the manifest", func() error { return limit(l.Limits) }},
		{"prepare Landlock", "check the paths under landlock in the manifest", func() (err error) {
			rules, err = newRuleset(l, warn)
			return err
		}},
		{"change the user", "run the host as root, or remove user and group from the manifest", func() error { return become(l.User) }},
		{"forbid new privileges", "", func() error { return noNewPrivs(l) }},
		{"tie the process to its host", "", func() error { return tie(l.Parent) }},
		{"restrict the files with Landlock", "remove landlock from the manifest", func() error { return rules.restrict() }},
		{"filter the system calls", "remove seccomp from the manifest, or use a kernel with CONFIG_SECCOMP_FILTER", func() error { return filter(l.Deny) }},
	} {
		if err := s.do(); err != nil {
			return s.failed(err)
		}
	}
	err := execute(l, args)
	var errno syscall.Errno
	errors.As(err, &errno)
	return isolation.Failure{Text: "execute: " + err.Error(), Exec: int(errno)}
}

func (s step) failed(err error) isolation.Failure {
	text := fmt.Sprintf("the launcher cannot %s: %v", s.name, err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		text += fmt.Sprintf(" (errno %d)", int(errno))
	}
	if s.mend != "" {
		text += "; " + s.mend
	}
	return isolation.Failure{Text: text}
}

func limit(limits []isolation.Limit) error {
	for _, l := range limits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return fmt.Errorf("%s to %d: %w", l.Name, l.Value, err)
		}
	}
	return nil
}

func become(u *isolation.User) error {
	if u == nil {
		return nil
	}
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(int(u.GID)); err != nil {
		return fmt.Errorf("to group %d: %w", u.GID, err)
	}
	if err := syscall.Setuid(int(u.UID)); err != nil {
		return fmt.Errorf("to user %d: %w", u.UID, err)
	}
	return nil
}

// noNewPrivs repeats what the host's thread has set, because Landlock and seccomp depend on it.
func noNewPrivs(l isolation.Launch) error {
	if l.NewPrivs {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// tie lets the kernel kill the process when its host dies: a change of user has undone that. The host may have died before; in a
// PID namespace, where its number is not seen, the end of the descriptor channel tells the plugin.
func tie(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if parent != 0 && os.Getppid() != parent {
		return errors.New("the host has died")
	}
	return nil
}

// execute executes the plugin. A file that is still being written is tried again for a while.
func execute(l isolation.Launch, args []string) error {
	path := l.Path
	if l.File {
		path = "/proc/self/fd/" + strconv.Itoa(isolation.FileFD)
	}
	argv := append([]string{l.Path}, args...)
	for end := time.Now().Add(busyFor); ; time.Sleep(busyStep) {
		err := syscall.Exec(path, argv, os.Environ())
		if !errors.Is(err, unix.ETXTBSY) || time.Now().After(end) {
			return err
		}
	}
}
