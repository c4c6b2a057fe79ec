package host

import (
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
	"github.com/gosrpt/gosrpt/sdk/internal/launcher"
	"github.com/gosrpt/gosrpt/sdk/internal/warden"
)

// Launch is what more there is to say about a start than its command line. The zero value starts a plugin as it is.
type Launch struct {
	// File, if set, is executed in place of what Path names by then. It stays the caller's, open until the start returns.
	File *os.File
	// Unchanged, if set, is asked before and after the execution whether the file still has the content that the caller knows.
	Unchanged func() error
	// Isolation is how the process is kept apart. It needs RunLauncher.
	Isolation Isolation
}

func (l Launch) options(path string, args, env []string, log hclog.Logger) bridge.Options {
	return bridge.Options{Path: path, Args: args, Env: env, File: l.File, Unchanged: l.Unchanged, Isolation: l.Isolation, Log: log}
}

// How a plugin's process is kept apart.
type (
	Isolation = isolation.Spec
	User      = isolation.User
	Limit     = isolation.Limit
	Files     = isolation.Files
)

// PluginProfile names the system calls that no plugin needs, for Isolation.Deny.
func PluginProfile() []string { return isolation.PluginProfile() }

// KnownCall tells whether this machine has a system call of that name.
func KnownCall(name string) bool { return launcher.Known(name) }

// CheckMajors says which side to upgrade if a plugin that speaks theirs has no major version in common with this host.
func CheckMajors(theirs []int) error { return bridge.CheckMajors(theirs, bridge.Majors()) }

// RunLauncher must be the first that main calls in a program that starts plugins. The program itself runs between its fork and
// a plugin that is isolated, and as the process that cleans up when the program is killed: then RunLauncher does not return.
// In a program that does not call it no plugin can be isolated.
func RunLauncher() {
	warden.Run()
	launcher.Run()
	bridge.LauncherReady()
}
