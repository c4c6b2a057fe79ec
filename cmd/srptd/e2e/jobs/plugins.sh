# The four plugins together: who is let in, what it sees and may write, how deep its queue is, and what the death of a plugin of the
# control plane means to whom.
. /job/lib/lib.sh

N=/dev/nvme0n1
LIST=/etc/gosrpt/access.yaml
CREDITS=24
SECOND=0000000000000002

nvme_up() {
	modprobe nvme
	until_true 20 test -b $N
}

# permit HOST...: puts a list of hosts in force, each in YAML's flow style. srptd says which list that is.
permit() {
	local host before
	before=$(grep -s -a -c 'access list in force' $SRPTD_LOG || true)
	{
		[ $# -gt 0 ] && echo hosts: || echo 'hosts: []'
		for host in "$@"; do
			echo "  - $host"
		done
	} >$LIST.new
	mv $LIST.new $LIST
	[ ! -e /run/srptd.pid ] || until_true 20 lists_more "$before"
}
lists_more() { [ "$(grep -a -c 'access list in force' $SRPTD_LOG)" -gt "$1" ]; }

THREE='[{lun: 0, name: disk0}, {lun: 3, name: disk1, read_only: true}, {lun: 7, name: disk2}]'
first() { echo "{name: first, initiators: ['${1:-port_id:$(initiator_id)}'], luns: $THREE}"; }
second() { echo "{name: second, initiators: ['port_id:$(initiator_id $SECOND)'], luns: [{lun: 0, name: disk3}]}"; }

setup net_up 4200
setup rxe_up
setup store_up
setup nvme_up
setup srptd_install
permit
srptd_config "$STORE/disk0.img 16MiB" "$STORE/disk1.img 8MiB" >$SRPTD_CONFIG
cat >>$SRPTD_CONFIG <<-END
	  - {lun: 2, name: disk2, plugin: backstore-nvme, config: {serial: $NVME_SERIAL, nsid: '1'}}
	  - {lun: 3, name: disk3, plugin: backstore-file, config: {path: $STORE/disk3.img, size: 8MiB}}
	auth: {plugin: auth, config: {list: $LIST}}
	ioctx: {plugin: ioctx, config: {credits: "$CREDITS", max_transfer: 1MiB, arena_size: 32MiB}}
END
four_run() {
	srptd_start
	ctl plugin list
	ctl plugin list --output json | jq -e '[.plugins[] | select(.state == "running" and .pid > 0) | .executable] | unique ==
		["auth", "backstore-file", "backstore-nvme", "ioctx"]'
}
must four_plugins_run four_run
setup initiator_load

# refused REASON [OPTIONS]: a login is refused, and the kernel says with which reason.
refused() {
	local before
	before=$(rejections "$1")
	no ask_login $V1_IP4 "${2:-}"
	[ "$(rejections "$1")" = $((before + 1)) ]
}
refused_by_list() {
	refused 0x00010003
	said 'login refused' "initiator=$(initiator_id)" "address=$V0_IP4" 'no rule of the access list names it' \
		"port_id:$(initiator_id)" "address:$V0_IP4" 'gid:'
	[ "$(sessions)" = 0 ]
}
check unlisted_initiator_is_refused_with_the_reason refused_by_list

# offered KIND: the name that the log offers is the list's, as it is.
offered() {
	grep -a 'login refused' $SRPTD_LOG | tail -n 1 | grep -o -E "$1:[0-9a-fx.:]*[0-9a-f]" | head -n 1 >/tmp/offered
	permit "$(first "$(cat /tmp/offered)")"
	login
	ctl sessions
	ctl sessions --output json | jq -e --arg by "host first by $1:" '.sessions | length == 1 and all(.permission | startswith($by))'
	logout
}
check logs_in_by_the_gid_that_the_log_offers offered gid
check logs_in_by_the_address_that_the_log_offers offered address
check logs_in_by_the_port_id_that_the_log_offers offered port_id

setup permit "$(first)" "$(second)"
must logs_in login $V1_IP4 $WIDE
HOST=$(srp_hosts)
all_three() {
	until_true 20 disk 3
	until_true 20 disk 7
}
must has_its_disks all_three
exactly() {
	lsscsi "$HOST:*:*:*"
	[ "$(lsscsi "$HOST:*:*:*" | wc -l)" = 3 ]
	sg_luns "$(disk 0)" | tee /tmp/luns
	grep 'Lun list length = 24 ' /tmp/luns
	[ "$(grep -c -E '^ *(0000|0003|0007)000000000000$' /tmp/luns)" = 3 ]
	[ "$(blockdev --getsize64 "$(disk 0)")" = $((16 << 20)) ]
	[ "$(blockdev --getsize64 "$(disk 3)")" = $((8 << 20)) ]
	[ "$(blockdev --getsize64 "$(disk 7)")" = "$(blockdev --getsize64 $N)" ]
}
check sees_exactly_its_luns exactly
read_only() {
	local status=0
	[ "$(blockdev --getro "$(disk 3)")" = 1 ]
	sg_raw --readonly -s 512 -i /dev/urandom "$(disk 3)" 2a 00 00 00 00 00 00 00 01 00 || status=$?
	[ $status = 7 ] # sg3_utils: data protect
	same_bytes "$(disk 3)" $STORE/disk1.img
	cmp -n $((8 << 20)) /dev/zero $STORE/disk1.img
}
check read_only_lun_refuses_a_write read_only
# idle_limit HOST: the requests that its channels may have outstanding, none of which is.
idle_limit() { [ "$(cat /sys/class/scsi_host/host"$1"/req_lim)" = $CREDITS ]; }
depth() {
	until_true 10 idle_limit "$HOST"
	# ib_srp keeps one request of its own for task management.
	[ "$(cat /sys/class/scsi_host/host"$HOST"/can_queue)" = $((CREDITS - 1)) ]
}
check queue_is_as_deep_as_the_ioctx_plugin_says depth
transfer() { sg_vpd --page=bl "$(disk 0)" | tee /dev/stderr | grep -q 'Maximum transfer length: 2048 blocks'; }
check transfer_is_as_long_as_the_ioctx_plugin_says transfer

check nvme_lun_verify_4k verify "$(disk 7)" 4k 32 2M
check nvme_lun_verify_256k verify "$(disk 7)" 256k 8 16M

# From here on the first session works without a pause, on the NVMe LUN and on a file.
setup messages_seen
setup load_start file "$(disk 0)"
setup load_start nvme "$(disk 7)"
loads_run() {
	load_runs file
	load_runs nvme
}

# without NAME: kills a plugin, which cannot come back until back NAME.
without() {
	mv $PLUGIN_DIR/"$1" /run/
	kill -9 "$(plugin "$1" .pid)"
	until_true 20 plugin_is "$1" down
}
back() {
	mv /run/"$1" $PLUGIN_DIR/
	until_true 40 plugin_is "$1" running
	[ "$(plugin "$1" .restarts)" -ge 1 ]
}

# second_out: ends the second session, which is the newest.
second_out() {
	local host port
	host=$(srp_hosts | tail -n 1)
	[ "$host" != "$HOST" ]
	for port in /sys/class/srp_remote_ports/port-"$host":*; do
		echo 1 >"$port/delete"
	done
	until_true 60 test ! -e /sys/class/scsi_host/host"$host"
	until_true 20 alone
	sleep 0.3 # as in logout
}
alone() { [ "$(sessions)" = 1 ]; }

auth_dead() {
	without auth
	refused 0x00010000 initiator_ext=$SECOND
	said 'login refused' "initiator=$(initiator_id $SECOND)" 'the authoriser gave no answer' 'not running'
	loads_run
	[ "$(sessions)" = 1 ]
}
check dead_auth_plugin_refuses_logins_and_disturbs_no_session auth_dead
auth_back() {
	back auth
	login $V1_IP4 initiator_ext=$SECOND
	[ "$(blockdev --getsize64 "$(disk 0)")" = $((8 << 20)) ]
	verify "$(disk 0)" 4k 8 256k
	second_out
}
check restarted_auth_plugin_lets_in auth_back
ioctx_dead() {
	without ioctx
	login $V1_IP4 initiator_ext=$SECOND
	until_true 10 idle_limit "$(srp_hosts | tail -n 1)"
	verify "$(disk 0)" 4k 8 256k
	loads_run
	back ioctx
	[ "$(sessions)" = 2 ]
}
check dead_ioctx_plugin_disturbs_nothing ioctx_dead

# The second session, which is logged in, is struck off. Its initiator gives up after some attempts to come back.
revoked() {
	local host port before
	host=$(srp_hosts | tail -n 1)
	[ "$host" != "$HOST" ]
	for port in /sys/class/srp_remote_ports/port-"$host":*; do
		echo 2 >"$port/reconnect_delay"
		echo 5 >"$port/fast_io_fail_tmo"
		echo 10 >"$port/dev_loss_tmo"
	done
	before=$(rejections 0x00010003)
	permit "$(first)"
	until_true 10 alone
	said 'permission withdrawn' "initiator=$(initiator_id $SECOND)" 'it is not on the access list any more'
	until_true 60 test ! -e /sys/class/scsi_host/host"$host"
	[ "$(rejections 0x00010003)" -gt "$before" ]
	no undisturbed "$host" # which the check of the first session must be able to tell
	[ "$(srp_hosts)" = "$HOST" ]
	ctl sessions --output json | jq -e --arg id "$(initiator_id)" '.sessions | length == 1 and all(.initiator_port_id == $id)'
}
check list_without_the_host_ends_its_live_session revoked
check the_other_session_goes_on loads_run

ends_clean() {
	load_stop file
	load_stop nvme
	echo "longest request: file $(load_longest file) ms, NVMe $(load_longest nvme) ms"
}
check fio_saw_no_error ends_clean
check first_session_saw_no_error undisturbed "$HOST"
cp "$(disk 7)" /dev/shm/image
check file_holds_the_same_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check logs_out logout
check srptd_ends_in_order srptd_ends_in_order
check namespace_holds_the_same_bytes same_bytes $N /dev/shm/image
