package bridge

import "golang.org/x/sys/unix"

// umask is every plugin's: what it makes is its own, the socket above all.
const umask = 0o077

// prepareThread makes this locked thread one whose children have the umask and gain no privileges by executing a file. The
// rest of the process stays as it is, and the thread must not serve anything else afterwards.
func prepareThread(newPrivs bool) error {
	// Where even that is forbidden the private directory has to do.
	if unix.Unshare(unix.CLONE_FS) == nil {
		unix.Umask(umask)
	}
	if newPrivs {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
