# fio writes blocks with checksums in them and reads them back, over block sizes, depths and stores; then the stores
# themselves are read and hold the same bytes.
. /job/lib/lib.sh

target_up "$STORE/disk0.img 128MiB" "/dev/vdc 32MiB" "/dev/shm/disk2.img 16MiB"
setup initiator_load
setup login
[ -z "${LOGIN_LIMITS:-}" ] || check receives_are_shared shares_receives

# matrix LUN: sizes so that an emulated CPU ends in minutes; every depth is reached.
matrix() {
	local bs depth bytes
	for bs in 512 4k 64k 1M 4M; do
		for depth in 1 32; do
			case $bs-$depth in
			512-1) bytes=64k ;;
			512-32) bytes=128k ;;
			4k-1) bytes=512k ;;
			4k-32) bytes=2M ;;
			64k-*) bytes=4M ;;
			1M-1) bytes=4M ;;
			1M-32) bytes=32M ;;
			4M-1) bytes=8M ;;
			4M-32) bytes=128M ;;
			esac
			check "verify_$1_${bs}_depth_$depth" verify "$(disk "$2")" $bs $depth $bytes
		done
	done
}
matrix file 0

small_set() {
	verify "$(disk "$1")" 512 32 64k
	verify "$(disk "$1")" 4k 32 2M
	verify "$(disk "$1")" 1M 4 4M
}
check verify_block_device small_set 1
check verify_tmpfs_file small_set 2
check file_holds_the_same_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check block_device_holds_the_same_bytes same_bytes "$(disk 1)" /dev/vdc
check tmpfs_file_holds_the_same_bytes same_bytes "$(disk 2)" /dev/shm/disk2.img
check logs_out logout

wide() {
	login $V1_IP4 $WIDE
	[ "$(cat "/sys/block/$(basename "$(disk 0)")/queue/max_hw_sectors_kb")" -ge 4096 ]
	echo 4096 >"/sys/block/$(basename "$(disk 0)")/queue/max_sectors_kb"
}
check logs_in_for_4_MiB_commands wide
large() {
	verify "$(disk 0)" 4M 4 16M
}
check verify_4_MiB_commands large
check logs_out_again logout

no_immediate() {
	modprobe -r ib_srp
	initiator_load use_imm_data=N never_register=Y
	login
}
check logs_in_without_immediate_data no_immediate
check verify_without_immediate_data small_set 0
