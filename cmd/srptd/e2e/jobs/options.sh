# The options of the kernel's initiator that change what it asks for: each choice logs in, writes, reads back and logs out. POINTS is "all"
# or a few of them for every day.
. /job/lib/lib.sh

MAX_TRANSFER=16MiB target_up "$STORE/disk0.img 64MiB"
HUGE_PAGES=48
huge_pages() { sysctl -w vm.nr_hugepages=$HUGE_PAGES && grep -q "HugePages_Free: *$HUGE_PAGES" /proc/meminfo; }
setup huge_pages
# scattered makes a file in memory of which no two pages lie side by side: between them lie those of another, that goes. A buffer in it is as
# many segments as pages.
SCATTERED=/dev/shm/scattered
scattered() {
	echo never >/sys/kernel/mm/transparent_hugepage/enabled
	fio --name=scattered --filename=$SCATTERED:$SCATTERED.between --file_service_type=roundrobin:1 --fallocate=none --rw=write --bs=4k --size=18M
	rm $SCATTERED.between
}
setup scattered

# channel FILTER: jq's answer about the list of the only session's channels.
channel() { ctl sessions --output json | jq -e -r ".sessions[0].channels | $1"; }
# block FILE: a file that tells of the disk. queue FILE: a number of its queue.
block() { echo "/sys/block/$(basename "$(disk 0)")/$1"; }
queue() { cat "$(block "queue/$1")"; }

# written BLOCKSIZE DEPTH BYTES: every block is written and read back, and the store has it.
written() {
	verify "$(disk 0)" "$@"
	same_bytes "$(disk 0)" $STORE/disk0.img
}
# point NAME OPTIONS COMMAND...: a check of one login with the options.
point() {
	local name=$1 options=$2
	shift 2
	POINT_OPTIONS=$options check "$name" at_point "$@"
	[ -z "$(srp_hosts)" ] || logout
}
at_point() {
	login $V1_IP4 "$POINT_OPTIONS"
	"$@"
	logout
}

# table SEGMENTS ENTRIES BYTES: the initiator puts that many segments into a command, and so many of their descriptors into the request. What
# does not fit is read by the target.
table() {
	[ "$(queue max_segments)" = "$1" ]
	queue max_hw_sectors_kb >"$(block queue/max_sectors_kb)"
	VERIFY_OPTIONS=--iomem=mmapshared:$SCATTERED written $(($1 * 4))k 4 "$3"
	if [ "$1" -gt "$2" ]; then
		[ "$(channel 'map(.tables // 0 | tonumber) | add')" -gt 0 ]
	else
		[ "$(channel 'map(.tables // 0 | tonumber) | add')" = 0 ]
	fi
}
EXTERNAL=allow_ext_sg=1,sg_tablesize=512,max_sect=8192
tables() {
	local entries
	for entries in 1 12 255; do
		point "$1_${entries}_descriptors" cmd_sg_entries=$entries,sg_tablesize=$entries table $entries $entries $((entries * 16))k
	done
	for entries in 1 12 255; do
		point "$1_${entries}_of_512_descriptors" cmd_sg_entries=$entries,$EXTERNAL table 512 $entries 8M
	done
}

# channels_work NUMBER: there are so many, and each moves data.
channels_work() {
	[ "$(channels)" = "$1" ]
	[ "$(channel length)" = "$1" ]
	written 64k 32 8M
	each_channel_is_used "$1"
}
# each_channel_is_used NUMBER: a request takes the channel of the CPU that it comes from.
each_channel_is_used() {
	local cpu
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		taskset -c $cpu dd if="$(disk 0)" of=/dev/null bs=4k count=4 iflag=direct
	done
	[ "$(channel 'map(select((.commands // 0 | tonumber) > 0)) | length')" = "$1" ]
}

# one_command MIB: so much is one command, and not two. Buffers in huge pages have few segments.
one_command() {
	local before after
	[ "$(queue max_hw_sectors_kb)" -ge $(($1 * 1024)) ]
	echo $(($1 * 1024)) >"$(block queue/max_sectors_kb)"
	before=($(cat "$(block stat)"))
	timeout 300 fio --name=verify --filename="$(disk 0)" --direct=1 --ioengine=libaio --iomem=mmaphuge --rw=write --bs="$1M" --iodepth=2 --size=32M \
		--verify=crc32c --verify_fatal=1 --do_verify=1
	after=($(cat "$(block stat)"))
	[ $((after[4] - before[4])) = $((32 / $1)) ] # writes
	[ $((after[6] - before[6])) = 65536 ]        # sectors of them
	same_bytes "$(disk 0)" $STORE/disk0.img
}

# depth NUMBER: as many commands as were asked for, if the target grants as much. The initiator keeps one of its 128 for task management.
depth() {
	local want=$(($1 < 127 ? $1 : 127))
	[ "$(cat /sys/class/scsi_host/host"$(srp_hosts)"/can_queue)" = "$want" ]
	written 4k "$1" 1M
}

# each_with Y|N: small data to be written comes in the requests, or is read by the target. Every buffer has a descriptor of its own.
each_with() { initiator_load never_register=Y ch_count=1 use_imm_data="$1"; }
check loads_with_immediate_data each_with Y
if [ "$POINTS" = all ]; then
	tables immediate
	check loads_without_immediate_data each_with N
	tables fetched
else
	point immediate_12_descriptors cmd_sg_entries=12,sg_tablesize=12 table 12 12 192k
	check loads_without_immediate_data each_with N
	point fetched_255_of_512_descriptors cmd_sg_entries=255,$EXTERNAL table 512 255 8M
fi

registered() { initiator_load ch_count="$1" use_imm_data="${2:-Y}"; }
for n in $CHANNELS; do
	check "loads_for_${n}_channels" registered "$n"
	point "${n}_channels" "$WIDE" channels_work "$n"
done
if [ "$POINTS" = all ]; then
	check loads_for_8_channels_without_immediate_data registered 8 N
	point 8_channels_without_immediate_data "$WIDE" channels_work 8
fi
check loads_for_1_channel_again registered 1
for n in $TRANSFERS; do
	point "${n}_MiB_in_one_command" "cmd_sg_entries=255,allow_ext_sg=1,sg_tablesize=2048,max_sect=$((n * 2048))" one_command "$n"
done
for n in $DEPTHS; do
	point "queue_of_$n" queue_size=$n depth "$n"
done
check srptd_ends_when_asked srptd_ends_in_order
