# kill -9 of file plugins at random moments while the initiator writes and checks: it sees a pause and nothing else. KILLS is how
# often. LUNs 0 and 1 lose their processes again and again; LUN 2 is the witness, of a process that lives.
. /job/lib/lib.sh

VICTIMS="0 1"
WITNESS=2
EACH=$(((KILLS + 1) / 2))

sizes=()
for n in $VICTIMS $WITNESS; do
	sizes+=("$STORE/disk$n.img 16MiB")
done
target_up "${sizes[@]}"
setup initiator_load
setup login
all_disks() { for n in $VICTIMS $WITNESS; do until_true 20 disk "$n"; done; }
setup all_disks
setup messages_seen
for n in $VICTIMS $WITNESS; do
	setup load_start "$n" "$(disk "$n")"
done

# killer LUN: kills the LUN's process at some moment of its first seconds, its start among them, then waits for the next one.
# The pause before a restart grows with the deaths, up to 10 s, for nobody lives here for a minute.
killer() {
	local pid last=0 killed=0
	set +x
	while [ $killed -lt "$EACH" ]; do
		pid=$(plugin "disk$1" .pid) || pid=0
		if [ "$pid" = 0 ] || [ "$pid" = $last ]; then
			sleep 0.1
			continue
		fi
		sleep "$((RANDOM % 3)).$(printf %03d $((RANDOM % 1000)))"
		kill -9 "$pid"
		last=$pid
		killed=$((killed + 1))
		echo $killed >"/run/killed.$1"
		log "disk$1: kill $killed, process $pid"
	done
}

plugins_are_killed() {
	local n pids=()
	for n in $VICTIMS; do
		killer "$n" >>/job/out/kills.log 2>&1 &
		pids+=($!)
	done
	for n in "${pids[@]}"; do
		wait "$n"
	done
	for n in $VICTIMS; do
		until_true 60 plugin_is "disk$n" running
		[ "$(cat "/run/killed.$n")" = "$EACH" ]
		[ "$(plugin "disk$n" .restarts)" = "$EACH" ]
	done
}
check every_kill_is_a_restart plugins_are_killed

witness_lives() { [ "$(plugin "disk$WITNESS" .restarts)" = 0 ]; }
check another_process_is_not_restarted witness_lives
goes_on() {
	for n in $VICTIMS $WITNESS; do
		load_runs "$n"
	done
}
check every_lun_goes_on goes_on
ends_clean() {
	for n in $VICTIMS $WITNESS; do
		load_stop "$n"
	done
}
check fio_reads_what_it_wrote ends_clean
# resent LUN: how many requests were handed to another process than the one that had them first.
resent() { ctl status --output json | jq -r --argjson lun "$1" '.luns[] | select(.lun == $lun) | .counters.plugin_resent // 0'; }
hit() {
	for n in $VICTIMS; do
		[ "$(resent "$n")" -gt 0 ]
	done
}
check kills_hit_requests_under_way hit
summary() {
	local n all=0
	for n in $VICTIMS; do
		echo "disk$n: $(plugin "disk$n" .restarts) restarts, $(resent "$n") requests handed to the next process," \
			"longest gap $(load_longest "$n") ms, $(load_passes "$n") passes of fio"
		all=$((all + $(cat "/run/killed.$n")))
	done
	echo "disk$WITNESS, never killed: longest request $(load_longest $WITNESS) ms, $(load_passes $WITNESS) passes of fio"
	echo "$all kills in $SECONDS s"
}
summary | tee /job/out/kills.summary
# Commands have 30 s with ib_srp, and as long with the target for want of a process.
in_time() {
	for n in $VICTIMS; do
		[ "$(load_longest "$n")" -lt 30000 ]
	done
}
check no_gap_is_as_long_as_a_commands_time in_time
check initiator_saw_no_error undisturbed "$(srp_hosts)"
nothing_waits() {
	cat /sys/class/scsi_host/host*/host_busy
	[ "$(cat /sys/class/scsi_host/host"$(srp_hosts)"/host_busy)" = 0 ]
	ctl plugin list --output json | jq -e 'all(.plugins[]; .requests_waiting == "0" and .requests_flying == "0")'
	[ "$(sessions)" = 1 ]
}
check no_command_is_stuck nothing_waits
files() {
	for n in $VICTIMS $WITNESS; do
		same_bytes "$(disk "$n")" "$STORE/disk$n.img"
	done
}
check files_hold_the_same_bytes files
check logs_out logout
check srptd_ends_in_order srptd_ends_in_order
