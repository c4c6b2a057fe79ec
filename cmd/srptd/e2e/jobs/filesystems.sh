# File systems on a LUN, logged in with ib_srp's default parameters: what was copied is there after logout and login.
. /job/lib/lib.sh

target_up "$STORE/disk0.img 384MiB"
setup initiator_load
setup make_tree /tree
sums /tree >/tree.sums
log "tree: $(du -sm /tree | cut -f1) MiB, $(wc -l </tree.sums) files"

two_channels() { [ "$(channels)" = 2 ] && [ "$(jq '[.sessions[0].channels[]] | length' <<<"$(ctl sessions --output json)")" = 2 ]; }
must logs_in_with_default_parameters login
check opens_two_channels two_channels

relogin() {
	logout
	login
}

copied() {
	"mkfs.$1" -q "$2" "$(disk 0)"
	mount "$(disk 0)" /mnt
	cp -a /tree /mnt/
	sync
	umount /mnt
}

sums_equal() {
	mount -o ro "$(disk 0)" /mnt
	sums /mnt/tree >/tmp/tree.read
	umount /mnt
	diff /tree.sums /tmp/tree.read
}

check ext4_takes_200_MiB copied ext4 -F
must ext4_relogin relogin
ext4_clean() { fsck.ext4 -f -n "$(disk 0)"; }
check ext4_fsck_is_clean ext4_clean
check ext4_checksums_are_equal sums_equal

check xfs_takes_200_MiB copied xfs -f
must xfs_relogin relogin
xfs_clean() { xfs_repair -n "$(disk 0)"; }
check xfs_repair_finds_nothing xfs_clean
check xfs_checksums_are_equal sums_equal

no_errors() {
	dmesg | grep -i -E 'sd[a-z]|srp|scsi|ext4|xfs' >/tmp/disk.messages
	no grep -E 'I/O error|failed|offline|reset (by|succeeded)|abort' /tmp/disk.messages
}
check initiator_saw_no_error no_errors

check file_holds_the_same_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check logs_out logout
no_target_session() { until_true 5 test "$(sessions)" = 0; }
check target_freed_the_session no_target_session
check srptd_ends_when_asked srptd_stop
