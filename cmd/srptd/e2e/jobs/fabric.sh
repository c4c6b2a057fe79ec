# Interfaces of the target change under load. One port, v1, is left alone: its session must see nothing of it. What happens, CYCLES times,
# happens to n1, a card that is wired to the initiator's second device; two sessions use an address of it each, and must go on, or end
# and come back by the initiator's own reconnect. The initiator gives up on a connection after six seconds and tries again every second.
. /job/lib/lib.sh

ACK_DELAY=16 LISTEN='[]' INTERFACES='["v1", "n1", "10.78.0.0/16"]' \
	target_up "$STORE/disk0.img 16MiB" "$STORE/disk1.img 16MiB" "$STORE/disk2.img 16MiB"
# With registered memory, a resend may stall rxe's send queue for good.
setup initiator_load never_register=Y reconnect_delay=1 fast_io_fail_tmo=120 dev_loss_tmo=off
setup login $V1_IP4
QUIET=$(srp_hosts)

# served [ADDRESS...]: the target listens there.
served() {
	local list a
	list=$(ctl fabric --output json | jq -r '.hcas[] | select(.serving) | .ports[].addresses[]')
	for a in "$@"; do
		grep -q -x "$a" <<<"$list"
	done
}
# in_time SECONDS COMMAND...: until_true, and notes how long it took.
in_time() {
	local start limit=$1
	start=$(date +%s%N)
	until_true "$@"
	echo "${FUNCNAME[1]}: ${*:2}: $((($(date +%s%N) - start) / 1000000)) ms of $limit s" | tee -a /job/out/times
}

# An address is served within 5 s; the rest is for a guest that is emulated on a busy host.
APPEARS=30
plugged() {
	cards_up
	in_time $APPEARS served $N1_IP4 $N1_OTHER
}
check plugged_card_is_served plugged

far_login() { RXE=rxe1 login "$1" "tl_retry_count=2,initiator_ext=000000000000000$2"; }
far_logins() {
	until_true 10 initiator_ready rxe1
	far_login $N1_IP4 1
	far_login $N1_OTHER 2
}
setup far_logins
FAR=$(srp_hosts | tail -n 2 | head -n 1)
OTHER=$(srp_hosts | tail -n 1)

# session ADDRESS: the ids of the target's sessions at one of its addresses.
session() { ctl sessions --output json | jq -r --arg a "$1:" '.sessions[] | select(any(.channels[]; .local | startswith($a))) | .id'; }
session_gone() { [ -z "$(session "$1")" ]; }
# reads HOST: the session answers. A read waits for the reconnect.
reads() { timeout 120 dd if="$(disk 0 "$1")" of=/dev/null bs=4k count=1 iflag=direct; }
alive() {
	reads "$FAR"
	reads "$OTHER"
}

# What happens. Each ends when all is as it was and both sessions are alive.
link_bounce() {
	tgt ip link set n1 down
	sleep 1
	tgt ip link set n1 up
	alive
}
# Without its address the target cannot tell the initiator. It frees the session within 3 s, and the one at the other address goes on.
GOES=30
address_goes() {
	local stays
	stays=$(session $N1_IP4)
	tgt ip addr del $N1_OTHER/24 dev n1
	in_time $GOES session_gone $N1_OTHER
	said 'channel ended' 'lost with its port or address' "does not have the address $N1_OTHER"
	[ "$(session $N1_IP4)" = "$stays" ]
	tgt ip addr add $N1_OTHER/24 dev n1
	alive
	[ "$(session $N1_IP4)" = "$stays" ]
}
address_changes() {
	tgt ip addr del $N1_OTHER/24 dev n1
	tgt ip addr add 10.78.0.4/24 dev n1
	in_time $APPEARS served 10.78.0.4
	far_login 10.78.0.4 3
	reads "$(srp_hosts | tail -n 1)"
	logout_of "$(srp_hosts | tail -n 1)"
	tgt ip addr del 10.78.0.4/24 dev n1
	tgt ip addr add $N1_OTHER/24 dev n1
	alive
}
# rename FROM TO: this kernel renames only what is down.
rename() {
	tgt ip link set "$1" down
	tgt ip link set "$1" name "$2"
	tgt ip link set "$2" up
	in_time $APPEARS served_as "$2"
}
served_as() { ctl fabric --output json | jq -e --arg n "$1" --arg a $N1_IP4 '.hcas[] | select(.name == $n and .serving and any(.ports[].addresses[]; . == $a))'; }
interface_is_renamed() {
	rename n1 p1
	rename p1 n1
	alive
}
mtu_shrinks() {
	tgt ip link set n1 mtu 1500
	in_time $GOES session_gone $N1_IP4
	said 'channel ended' 'lost with its port or address' 'the MTU of n1 is 1500'
	tgt ip link set n1 mtu 4200
	alive
}
card_is_unplugged() {
	card_unplug
	in_time $GOES session_gone $N1_IP4
	card_plug
	in_time $APPEARS served $N1_IP4 $N1_OTHER
	alive
}
EVENTS=(link_bounce address_goes address_changes interface_is_renamed mtu_shrinks card_is_unplugged)

# Three sessions that nobody uses: their keep-alives are all there is to do. Something that spins uses a thousand jiffies in 10 s, and
# an emulated CPU that has to wait for a real one counts as used.
IDLE_JIFFIES=500
idle_jiffies() {
	local before
	before=$(srptd_jiffies)
	sleep 10
	echo $(($(srptd_jiffies) - before))
}
idle_jiffies >/tmp/idle.before
in_use >/tmp/used.before
same_use() { [ "$(in_use)" = "$(cat /tmp/used.before)" ]; }
lost() {
	until_true 60 same_use || { echo "before $(cat /tmp/used.before), now $(in_use)"; return 1; }
}

# A load that leaves the emulated CPUs time for what happens.
LOAD_MIB=2 LOAD_OPTIONS=--rate_iops=60
setup messages_seen
setup load_start quiet "$(disk 0 "$QUIET")"
setup load_start far "$(disk 1 "$FAR")"
setup load_start other "$(disk 2 "$OTHER")"
began=$SECONDS
for event in "${EVENTS[@]}"; do
	check "$event" "$event"
done
cycles() {
	local n
	set +x
	for ((n = ${#EVENTS[@]}; n < CYCLES; n++)); do
		log "cycle $n: ${EVENTS[n % ${#EVENTS[@]}]}" >>/job/out/cycles.log
		"${EVENTS[n % ${#EVENTS[@]}]}" >>/job/out/cycles.log 2>&1
		[ -z "$(cat /run/load.*.status 2>/dev/null)" ]
	done
	load_runs quiet
}
check every_cycle_recovers cycles
took=$((SECONDS - began))
ends_clean() {
	local name
	for name in quiet far other; do
		load_stop $name
	done
}
check fio_reads_what_it_wrote ends_clean
check other_port_saw_no_error undisturbed "$QUIET"
setup alive
check nothing_is_lost lost

idle() {
	idle_jiffies | tee /tmp/idle.after
	echo "idle for 10 s: $(cat /tmp/idle.before) jiffies before, $(cat /tmp/idle.after) after" | tee -a /job/out/times
	[ "$(cat /tmp/idle.after)" -le $IDLE_JIFFIES ]
	[ "$(cat /tmp/idle.after)" -le $((2 * $(cat /tmp/idle.before) + 100)) ]
}
check idle_target_uses_no_cpu idle

# The initiator's device is removed with its sessions, and made again.
far_gone() { [ "$(srp_hosts)" = "$QUIET" ]; }
device_goes() {
	local n
	for ((n = 0; n < 2 + CYCLES / 20; n++)); do
		rxe1_down
		until_true 60 far_gone
		in_time 60 session_gone $N1_IP4
		until_true 60 session_gone $N1_OTHER
		rxe1_up
		far_logins
		verify "$(disk 2)" 4k 8 256k
	done
}
check initiators_device_goes_and_logs_in_again device_goes
check nothing_is_lost_by_that lost
not_flooded() { [ "$(wc -l <$SRPTD_LOG)" -lt $((10 * SECONDS)) ]; }
check log_is_not_flooded not_flooded
files() {
	local n
	for n in 0 1 2; do
		same_bytes "$(disk $n "$QUIET")" "$STORE/disk$n.img"
	done
}
check files_hold_the_same_bytes files
summary() {
	echo "$CYCLES cycles in $took s; passes of fio: $(load_passes quiet) quiet, $(load_passes far) and $(load_passes other) disturbed"
	echo "longest request: $(load_longest quiet) ms quiet, $(load_longest far) and $(load_longest other) ms disturbed"
	echo "in use: $(cat /tmp/used.before)"
	grep idle /job/out/times
	awk -F ': ' '/ ms of / { split($3, ms, " "); what = $1 ": " $2; n[what]++; sum[what] += ms[1]; if (ms[1] > most[what]) most[what] = ms[1] }
		END { for (w in n) printf "%s: %d ms, at most %d ms, %d times\n", w, sum[w] / n[w], most[w], n[w] }' /job/out/times | sort
}
summary | tee /job/out/fabric.summary
after_unplug() {
	local start
	card_unplug
	sleep 1
	start=$(date +%s%N)
	srptd_ends_in_order
	echo "ended after $((($(date +%s%N) - start) / 1000000)) ms" | tee -a /job/out/fabric.summary
}
check ends_in_order_after_an_unplug after_unplug
cat /job/out/fabric.summary
