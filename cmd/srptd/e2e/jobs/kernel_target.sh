# The kernel's initiator against the kernel's own target: when this fails the lab is broken, not srptd.
. /job/lib/lib.sh

setup net_up
setup rxe_up
setup initiator_load

export_file() { lio_start /dev/shm/disk0 $((256 << 20)); }
setup export_file

two_channels() { [ "$(channels)" = 2 ]; }
must logs_in lio_login
check opens_two_channels two_channels

file_system() {
	mkfs.ext4 -q -F "$(disk 0)"
	mount "$(disk 0)" /mnt
	cp -a /usr/bin /mnt/
	umount /mnt
	fsck.ext4 -fn "$(disk 0)"
}
check holds_a_file_system file_system

verified() { verify "$(disk 0)" 4k 32 4M; verify "$(disk 0)" 1M 4 16M; }
check returns_what_was_written verified

check logs_out logout
