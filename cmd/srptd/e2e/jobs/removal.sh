# The RDMA device that a session is on is pulled out under load, again and again, while another session of the same srptd, on
# another device, goes on. Nothing may be left of what has gone.
. /job/lib/lib.sh

ALSO_LISTEN=$V0_IP4
target_up "$STORE/disk0.img 64MiB" "/dev/shm/disk1.img 32MiB"
# With registered memory the guest's rxe stops a send queue in which it has to resend across a registration. It says "rdma_rxe:
# rxe_reg_fast_mr: mr->lkey = 0x94a not free", what is under way is flushed, and ib_srp reconnects: one of fifty removals kept the machine
# busy for so long that this happened to the session that lasts, which had nothing to do with it.
setup initiator_load never_register=Y

lasting_login() { SRC= login $V0_IP4 $WIDE; }
must logs_in_to_the_lasting_device lasting_login
LASTING=$(srp_hosts)
LASTING_DISK=$(disk 1 "$LASTING")
messages_seen

srptd_pid() { cat /run/srptd.pid; }
fds() { ls "/proc/$(srptd_pid)/fd" | wc -l; }
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$(srptd_pid)/status"; }
# objects: what processes have in the kernel, by kind; srptd is the only one. The kernel's own have a name in brackets.
objects() {
	local kind
	for kind in qp cq mr pd cm_id ctx; do
		echo "$kind $(rdma resource show $kind | grep -v -c -F 'comm [')"
	done
}

fio --name=lasting --filename="$LASTING_DISK" --rw=randrw --bs=4k --iodepth=4 --direct=1 --ioengine=libaio --size=16m \
	--verify=crc32c --time_based --runtime=100000 --eta=never --output=/tmp/lasting.log &
LASTING_FIO=$!

alone() { [ "$(sessions)" = 1 ]; }
both_listen() { [ "$(ctl status --output json | jq '[.listeners[] | select(.state == "listening") | .device] | unique | length')" = 2 ]; }

# removal: one session comes, works and loses its device.
removal() {
	local host load
	# Refused while ib_srp still has the last session on its list: a reconnection under way ends first.
	until_true 90 ask_login $V1_IP4 initiator_ext=0000000000000001,$WIDE
	until_true 60 disk 0
	host=$(srp_hosts | tail -n 1)
	fio --name=load --filename="$(disk 0 "$host")" --rw=randrw --bs=64k --iodepth=16 --direct=1 --ioengine=libaio \
		--time_based --runtime=300 >/dev/null 2>&1 &
	load=$!
	sleep 1
	kill -0 $load
	timeout 60 rdma link delete rxe1
	until_true 60 alone
	echo 1 >/sys/class/srp_remote_ports/port-$host:1/delete
	wait $load || true
	rdma link add rxe1 type rxe netdev v1
	until_true 60 both_listen
}

# The first one makes what stays: threads, caches, librdmacm's handles.
must first_removal removal
objects >/tmp/objects.before
before_fds=$(fds)
before_resident=$(resident)
log "after the first removal: $before_fds descriptors, $before_resident KiB resident; $(paste -s -d, /tmp/objects.before)"

removals() {
	local i
	for i in $(seq "$REMOVALS"); do
		removal
	done
}
check every_removal_is_survived removals
log "after $REMOVALS more: $(fds) descriptors, $(resident) KiB resident; $(objects | paste -s -d,)"

same_objects() {
	no grep -E '^(qp|cq|mr|pd|cm_id) 0$' /tmp/objects.before
	objects >/tmp/objects.after
	diff /tmp/objects.before /tmp/objects.after
}
check no_object_is_left_in_the_kernel same_objects
no_more_descriptors() { [ "$(fds)" -le "$before_fds" ]; }
check no_descriptor_is_left no_more_descriptors
# Go's heap may grow for a while; what a removal would leave, rings and buffers of a channel, is megabytes.
no_more_memory() { [ "$(resident)" -le $((before_resident + 16384)) ]; }
check no_memory_is_left no_more_memory

lasting_works() {
	kill -0 $LASTING_FIO
	undisturbed "$LASTING"
}
check the_other_session_is_undisturbed lasting_works
kill -INT $LASTING_FIO
wait $LASTING_FIO
verified() {
	cat /tmp/lasting.log
	no grep -E 'verify:|error' /tmp/lasting.log
	grep -q 'err= 0' /tmp/lasting.log
}
check the_other_session_read_what_it_wrote verified
check logs_out logout
no_queue_pairs() { [ "$(objects | grep -c '^qp 0$')" = 1 ]; }
check no_queue_pair_is_left_without_sessions until_true 30 no_queue_pairs
check srptd_ends_when_asked srptd_stop
nothing_left() {
	objects >/tmp/objects.end
	no grep -v ' 0$' /tmp/objects.end
}
check nothing_is_left_in_the_end nothing_left
