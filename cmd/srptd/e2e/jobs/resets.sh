# What the kernel's initiator does when it is in trouble, or is made to believe so: resets of a unit, of the bus and of the host under load,
# logins and logouts one after the other, a link that is gone for longer than the connection lives. STORM is how many logins. A session
# that has no trouble goes on beside them. LOGINS is as LOGIN_LIMITS, and shares receives.
. /job/lib/lib.sh

LOGIN_LIMITS=${LOGINS:-} ACK_DELAY=16 target_up "$STORE/disk0.img 32MiB" "$STORE/disk1.img 32MiB" "$STORE/disk2.img 32MiB"
# With registered memory, a resend may stall rxe's send queue for good.
setup initiator_load never_register=Y reconnect_delay=$DELAY fast_io_fail_tmo=300 dev_loss_tmo=off
other_login() { login $V1_IP4 "initiator_ext=000000000000000$1,tl_retry_count=2"; }

setup other_login 1
QUIET=$(srp_hosts)
second_login() { other_login 2; }
setup second_login
[ -z "${LOGINS:-}" ] || check receives_are_shared shares_receives
HOST=$(srp_hosts | tail -n 1)
DISK=$(disk 1 "$HOST")
RESET_DISK=$(disk 2 "$HOST")
sleep 1
in_use >/tmp/in_use.before
messages_seen
LOAD_MIB=1
setup load_start quiet "$(disk 0 "$QUIET")"

# resets OPTION: the reset is done again and again while the disk is written, and every byte is the right one in the end.
resets() {
	load_start "reset$1" "$RESET_DISK"
	for _ in $(seq "$RESETS"); do
		sleep 1
		timeout 120 sg_reset "$1" "$RESET_DISK"
	done
	load_runs "reset$1"
	load_stop "reset$1"
	same_bytes "$RESET_DISK" $STORE/disk2.img
}
# task_mgmt: how many aborts and resets the channels that there are were asked for.
task_mgmt() { ctl sessions --output json | jq '[.sessions[].channels[].task_mgmt // 0 | tonumber] | add // 0'; }
logins() { ctl status --output json | jq '.counters.logins_accepted | tonumber'; }
unit_resets() {
	resets -d
	[ "$(task_mgmt)" -ge "$RESETS" ]
}
check resets_of_the_unit_under_load unit_resets
# ib_srp has no reset of the bus: SCSI goes on to the host's, which is a new login.
host_resets() {
	local before
	before=$(logins)
	resets "$1"
	[ $(($(logins) - before)) -ge "$RESETS" ]
}
check resets_of_the_bus_under_load host_resets -b
check resets_of_the_host_under_load host_resets -H

two_sessions() { [ "$(sessions)" = 2 ]; }
check sessions_are_those_of_before two_sessions

# storm: each login writes, and is logged out while it does.
storm() {
	local i load host
	for i in $(seq "$STORM"); do
		other_login 3
		host=$(srp_hosts | tail -n 1)
		timeout 60 dd if=/dev/zero of="$(disk 1 "$host")" bs=64k count=512 oflag=direct &
		load=$!
		[ $((i % 4)) != 0 ] || sleep 0.5
		logout_of "$host"
		wait $load || true
		sleep 0.3
	done
}
check every_login_of_the_storm_works storm
quiet_went_on() {
	load_runs quiet
	undisturbed "$QUIET"
}
check quiet_session_went_on quiet_went_on
check quiet_session_read_what_it_wrote load_stop quiet
same_use() { in_use | tee /tmp/in_use.after | cmp /tmp/in_use.before -; }
as_before() {
	until_true 60 same_use || { cat /tmp/in_use.before /tmp/in_use.after; return 1; }
	two_sessions
}
check storm_leaves_nothing as_before
check quiet_session_logs_out logout_of "$QUIET"

# What is under way when the link goes is sent again once it is back, and nothing is lost. The initiator tries every DELAY seconds; an
# attempt that began before the link was back has to fail first. It must be writing when the link goes: an initiator that only waits for
# answers learns of that by the timeout of its commands, and gives some of them up.
rport_is() { grep -q -x "$1" "/sys/class/srp_remote_ports/port-$HOST:1/state"; }
one_session() { [ "$(sessions)" = 1 ]; }
no_session() { [ "$(sessions)" = 0 ]; }
link_lost() {
	local since
	LOAD_MIB=8 load_start lost "$DISK"
	sleep 1
	tgt ip link set v1 down
	until_true 120 rport_is blocked
	until_true 120 no_session
	tgt ip link set v1 up
	since=$(date +%s)
	until_true 120 rport_is running
	echo "reconnected $(($(date +%s) - since)) s after the link was back; reconnect_delay is $DELAY s" | tee -a /job/out/times
	load_runs lost
	load_stop lost
	same_bytes "$DISK" $STORE/disk1.img
	one_session
}
[ $PROVIDER != roce ] || check connection_is_back_after_the_link_is link_lost # both ends of a pair are down when one is
check logs_out logout
check srptd_ends_when_asked srptd_ends_in_order
