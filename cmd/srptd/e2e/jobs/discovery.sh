# Discovery from the kernel's side: Device Management requests through ib_umad and rdma_rxe to srptd. With roce then to the kernel's own agent,
# whose answers are those that ours are held against; with verbs, where the kernel's target takes the same ports, while that has them.
. /job/lib/lib.sh

target_up "$STORE/disk0.img 16MiB"

# ask [OPTIONS] GID
ask() { dmquery -umad "/dev/infiniband/$(grep -l rxe0 /sys/class/infiniband_mad/umad*/ibdev | cut -d/ -f5)" "$@"; }

finds_it() {
	ask $V1_LINK6 | tee /tmp/found
	grep -x 'unit slots=16 change=[0-9]*' /tmp/found
	grep "^controller slot=1 guid=$IOC_GUID " /tmp/found
	grep "^id_ext=$ID_EXT,ioc_guid=$IOC_GUID,dgid=fe80000000000000.*,pkey=ffff,service_id=$(printf '%016x' $((0x1060000 + PORT))),cmd_sg_entries=255$" /tmp/found
}
check discovery_finds_the_target finds_it
# With verbs the kernel's MAD layer is before srptd, and answers requests of other class versions.
SORTED=
[ "$PROVIDER" = roce ] || SORTED=-sorted
answers() { ask $SORTED -transcript /job/bin/linux.txt $V1_LINK6; }
check answers_are_those_of_the_transcripts answers
# gid_index TEXT: the index of rxe0's GID that has the text.
gid_index() { grep -l "$1" /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null | head -n 1 | sed 's,.*/,,'; }
answered() { ctl fabric --output json | jq '[.hcas[].ports[] | .answered | tonumber] | add'; }
received() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts; }
# Of an answer over IPv4 the kernel's MAD layer does not know that it is one: it compares the GID asked with the GRH, where rxe leaves an
# IPv4 header. So it is only seen to be sent and to arrive.
every_address() {
	ask -from "$(gid_index fd77:)" $V1_IP6
	local sent arrived
	sent=$(answered) arrived=$(received)
	ask -from "$(gid_index 0a4d:0001)" ::ffff:$V1_IP4 || true
	[ "$(answered)" -gt "$sent" ]
	[ "$(received)" -gt "$arrived" ]
}
check every_address_answers every_address
counted() { [ "$(answered)" -ge 38 ]; }
check answers_are_counted counted

kernel_target() {
	mkdir -p /etc/target
	modprobe -a target_core_mod ib_srpt
}
kernel_answers() {
	kernel_target
	ask -linux -transcript /job/bin/linux.txt "$(cat /sys/class/infiniband/rxe0/ports/1/gids/0)" | tee /tmp/kernel
	grep -x '30 answers are as recorded, ours differs in 13 of them' /tmp/kernel
}

CONFLICT="the kernel's SRP target (module ib_srpt) has the Device Management class of rxe1 port 1: unload it (modprobe -r ib_srpt); logins by address work meanwhile"
kernel_target_first() {
	srptd_stop
	kernel_target
	srptd_start
}
conflict_named() {
	ctl fabric | grep -F "off: $CONFLICT"
	ctl status | grep -F "port 1 does not answer discovery: $CONFLICT"
	said 'discovery is not answered, trying again' device=rxe1 port=1 "$CONFLICT"
	srptctl doctor --config $SRPTD_CONFIG >/tmp/doctor || true
	grep -E 'kernel target +ib_srpt +it is loaded, .* of rxe0 port 1, rxe1 port 1 in' /tmp/doctor
}
logs_in_meanwhile() {
	initiator_load
	login
	verify "$(disk 0)" 4k 8 1M
	logout
}
ours_answers() { ctl fabric --output json | jq -e '[.hcas[].ports[].discovery] | all'; }
kernel_target_gone() {
	modprobe -r ib_srpt
	until_true 30 ours_answers
	finds_it
	ctl status >/tmp/status
	no grep -F 'does not answer' /tmp/status
}

case $PROVIDER in
roce)
	check kernels_agent_differs_as_the_transcripts_say kernel_answers
	;;
verbs)
	check starts_beside_the_kernels_target kernel_target_first
	check conflict_is_named conflict_named
	check logins_are_taken_meanwhile logs_in_meanwhile
	check answers_once_the_kernels_target_is_gone kernel_target_gone
	;;
esac
check srptd_ends_when_asked srptd_stop
