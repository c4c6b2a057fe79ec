package isolation

// PluginProfile names the system calls that no plugin needs: what changes the machine, other processes, or its own identity. It
// leaves out io_uring, which reaches none of them.
func PluginProfile() []string {
	return []string{
		"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
		"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
		"unshare", "setns",
		"kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module", "delete_module",
		"bpf", "perf_event_open", "userfaultfd", "iopl", "ioperm",
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups", "capset",
		"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
		"sethostname", "setdomainname", "syslog", "vhangup", "open_by_handle_at",
		"add_key", "request_key", "keyctl",
	}
}
