# A network that loses and reorders. What the target sends may be lost with any initiator. What the initiator sends may be
# lost without trouble only with never_register=Y: else the kernel's rxe may stall a send queue for good when it has to
# resend across a memory registration, and the session comes back through the initiator's error handling.
. /job/lib/lib.sh

target_up "$STORE/disk0.img 96MiB"
LOSS="delay 1ms reorder 0.1% loss 1%"

io_errors() { dmesg | grep -c -E 'I/O error|Buffer I/O error' || true; }
reconnects() { dmesg | grep -c -i 'reconnect' || true; }

# unharmed: file system and fio use the disk, and nothing but time tells them of the loss.
unharmed() {
	local errors again
	errors=$(io_errors) again=$(reconnects)
	mkfs.ext4 -q -F "$(disk 0)"
	mount "$(disk 0)" /mnt
	cp -a /usr/bin /mnt/
	sync
	umount /mnt
	blockdev --flushbufs "$(disk 0)"
	fsck.ext4 -f -n "$(disk 0)"
	mount -o ro "$(disk 0)" /mnt
	diff -r --no-dereference /usr/bin /mnt/bin
	umount /mnt
	verify "$(disk 0)" 4k 32 2M
	verify "$(disk 0)" 64k 8 8M
	verify "$(disk 0)" 1M 4 16M
	[ "$(io_errors)" = "$errors" ]
	[ "$(reconnects)" = "$again" ]
}

disturbed() { [ "$(counter_sum "$1")" -gt 0 ]; }

our_loss_alone() {
	setup initiator_load
	setup login
	setup netem_ours $LOSS
	check our_loss_reaches_no_file_system unharmed
	check our_loss_is_counted disturbed rc_retransmits
	netem_off
	check our_loss_left_the_right_bytes same_bytes "$(disk 0)" $STORE/disk0.img
	check logs_out logout
}
[ $PROVIDER != roce ] || our_loss_alone

register_nothing() {
	srptd_stop
	ACK_DELAY=16 srptd_config "$STORE/disk0.img 96MiB" >$SRPTD_CONFIG
	srptd_start
	initiator_load never_register=Y
	login
	netem_ours $LOSS
	netem_theirs $LOSS
}
setup register_nothing
check loss_both_ways_reaches_no_file_system unharmed
check their_loss_is_counted disturbed 'rc_out_of_order|rc_naks_sent|rc_read_restarts|hw_out_of_seq_request|hw_duplicate_request'
netem_off
check loss_both_ways_left_the_right_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check logs_out_again logout

# The kernel's defect: fio writes and checks until it has met loss; then the network is whole again, and the session must come
# back by itself, by the initiator's abort, reset and reconnect. That commands fail meanwhile is the initiator's affair;
# wrong bytes would be ours.
NOTICED='rc_out_of_order|rc_naks_sent|rc_read_restarts|rc_duplicates'
default_again() {
	initiator_load
	login
	counter_sum "$NOTICED" >/tmp/noticed.before
	netem_theirs loss 1%
}
meets_loss() {
	timeout -k 5 60 fio --name=stall --filename="$(disk 0)" --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=16 \
		--size=16M --time_based --runtime=20 --verify=crc32c --verify_backlog=64 --continue_on_error=io \
		>/tmp/stall.out 2>&1 || echo "fio ended with $?: the queue stalled"
	netem_off
	cat /tmp/stall.out
	no grep 'verify failed' /tmp/stall.out
}
noticed() { [ "$(counter_sum "$NOTICED")" -gt "$(cat /tmp/noticed.before)" ]; }
recovers() {
	until_true 240 disk 0
	timeout 240 dd if="$(disk 0)" of=/dev/null bs=64k count=1 iflag=direct
	verify "$(disk 0)" 4k 16 2M
	same_bytes "$(disk 0)" $STORE/disk0.img
}
default_parameters() {
	setup default_again
	check their_loss_with_default_parameters_gives_no_wrong_byte meets_loss
	check their_loss_shows_in_our_counters noticed
	check session_recovers_by_error_handling recovers
}
[ $PROVIDER != roce ] || default_parameters
