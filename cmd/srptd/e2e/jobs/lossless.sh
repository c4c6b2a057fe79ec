# A link that loses nothing, two channels, mixed I/O at depth 32: our stack must cause no retransmission, no NAK, no drop.
# SECONDS_OF_IO is how long.
. /job/lib/lib.sh

target_up "$STORE/disk0.img 128MiB"
setup initiator_load
setup login

# Three jobs that differ in block size share the time, each on its own part of the disk.
mixed() {
	local disk
	disk=$(disk 0)
	[ -b "$disk" ]
	fio --direct=1 --ioengine=libaio --iodepth=32 --time_based --runtime="$SECONDS_OF_IO" --filename="$disk" --group_reporting \
		--name=small --rw=randrw --bs=4k --size=32M --offset=0 \
		--name=mixed --rw=randrw --bssplit=512/20:8k/40:64k/40 --size=32M --offset=32M \
		--name=large --rw=rw --bs=512k --iodepth=8 --size=64M --offset=64M
}
check mixed_io_for_the_whole_time mixed

zero() {
	ctl status
	[ "$(counter_sum "$1")" = 0 ]
}
check no_retransmission zero 'rc_retransmits|rc_read_restarts|rc_timeouts|cm_retransmits'
check no_nak_sent zero 'rc_naks_sent|rc_rnr_sent'
check no_nak_received zero 'rc_naks_received|rc_rnr_received'
check no_drop zero 'rx_socket_drops|rx_truncated|tx_errors|tx_too_long|cm_overflow'
check no_bad_packet zero 'rx_bad_.*|rc_bad_packets|rc_out_of_order|cm_malformed'
rxe_is_content() {
	rxe_counters >/tmp/rxe.counters
	cat /tmp/rxe.counters
	no grep -E '^(duplicate_request|out_of_seq_request|rcvd_(rnr|seq)_err|send_(rnr_)?err|completer_retry_err|retry_.*):' /tmp/rxe.counters
}
check initiator_counts_no_error rxe_is_content
check file_holds_the_same_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check logs_out logout
