# IPv4, IPv6 global and link-local, small and large packets, and a session whose initiator vanishes.
. /job/lib/lib.sh

MTU=9000 target_up "$STORE/disk0.img 24MiB"
setup initiator_load

# through DEST MTU: with rxe made anew, so that it takes the path MTU of the interface.
through() {
	rxe_down 2>/dev/null || true
	net_mtu "$2"
	net_addresses
	rxe_up
	until_true 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target
	login "$1"
	verify "$(disk 0)" 4k 16 1M
	verify "$(disk 0)" 256k 4 8M
	same_bytes "$(disk 0)" $STORE/disk0.img
	logout
}
check ipv4_mtu_9000 through $V1_IP4 9000
check ipv6_global_mtu_9000 through "[$V1_IP6]" 9000
check ipv6_link_local_mtu_9000 through "[$V1_LINK6%v0]" 9000
check ipv4_mtu_1500 through $V1_IP4 1500
check ipv6_global_mtu_1500 through "[$V1_IP6]" 1500
check ipv6_link_local_mtu_1500 through "[$V1_LINK6%v0]" 1500

# The initiator's device goes while nothing it could say gets through: the target must find out by itself, within
# session.dead_peer and the few seconds that a busy guest needs to notice.
DEAD_PEER=30
none() { [ "$(sessions)" = 0 ]; }
some() { [ "$(sessions)" -ge 1 ]; }

# The disks are told not to flush when they go: a SEND that nobody acknowledges, on a device that is removed, is completed
# twice by the kernel, which does not survive it (6.1: list corruption in srp_send_done).
vanish() {
	local cache
	for cache in /sys/class/scsi_disk/*/cache_type; do
		echo 'temporary write through' >"$cache"
	done
	netem_theirs loss 100%
	rxe_down
	until_true 30 no_sessions
	netem_off
}

frees() {
	login
	some
	vanish
	some
	local start
	start=$(date +%s)
	until_true $((DEAD_PEER + 15)) none
	echo "freed after $(($(date +%s) - start)) s"
}
check vanished_session_is_freed_in_time frees

login_at_once() {
	rxe_up
	until_true 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target
	login
	vanish
	some
	rxe_up
	until_true 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target
	local start
	start=$(date +%s)
	login
	[ $(($(date +%s) - start)) -le 10 ]
	verify "$(disk 0)" 4k 8 256k
	[ "$(sessions)" = 1 ]
}
check same_initiator_logs_in_at_once login_at_once
check logs_out logout

removed() {
	login
	some
	rxe_down
	until_true 30 no_sessions
	until_true $((DEAD_PEER + 15)) none
	rxe_up
	until_true 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target
	login
	verify "$(disk 0)" 4k 8 256k
	logout
}
check removed_device_frees_its_session removed
