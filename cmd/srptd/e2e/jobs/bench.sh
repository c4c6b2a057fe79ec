# The same fio jobs on the kernel's target (TARGET=lio) or on srptd (TARGET=srptd, on PROVIDER), over the same rxe and on the same kind of
# store: a file in memory (BACKING=memory) or a null block device (BACKING=null). It runs with the clock counting instructions, so it
# measures the work of initiator, fabric and target together: on one CPU, without caches, locks or waiting. A line of
# /job/out/bench.csv is JOB,ROUND,IOPS,MIB_PER_S,P50_US,P99_US.
. /job/lib/lib.sh

fabric_up

null_device() { modprobe null_blk nr_devices=1 gb=4 bs=512 queue_mode=2 irqmode=1 submit_queues=1 max_sectors=8192; }
memory_file() { dd if=/dev/zero of=/dev/shm/disk.img bs=1M count=128; }
case $BACKING in
null)
	setup null_device
	BACK=/dev/nullb0 BYTES=$((4 << 30))
	;;
memory)
	setup memory_file
	BACK=/dev/shm/disk.img BYTES=$((128 << 20))
	;;
esac
setup initiator_load

case $TARGET in
lio)
	setup lio_start $BACK $BYTES
	must login lio_login $WIDE
	;;
srptd)
	setup srptd_install
	srptd_config "$BACK $BYTES${LUN_SETTINGS:+, $LUN_SETTINGS}" >$SRPTD_CONFIG
	setup srptd_start
	must login login $V1_IP4 $WIDE
	;;
esac

setup sync # what was installed is not written to the disk while the jobs run

# bench JOB ROUND: JOB is BLOCKSIZE_PATTERN_DEPTH.
bench() {
	local size=${1%%_*} pattern ms=1000
	case $1 in
	*_rr_*) pattern=randread ;;
	*_rw_*) pattern=randwrite ;;
	*_r_*) pattern=read ;;
	*_w_*) pattern=write ;;
	esac
	[ "$size" = 4k ] || ms=2000
	profiled "$1.$2" fio --name=x --filename="$(disk 0)" --direct=1 --ioengine=libaio --rw=$pattern --bs="$size" --iodepth="${1##*_q}" \
		--time_based --runtime=${ms}ms --ramp_time=250ms --norandommap --percentile_list=50:99 \
		--output-format=json --output=/tmp/fio.json
	jq -r --arg job "$1" --arg round "$2" '.jobs[0] | (if .read.total_ios > 0 then .read else .write end) |
		[$job, $round, .iops, .bw / 1024, .clat_ns.percentile["50.000000"] / 1000, .clat_ns.percentile["99.000000"] / 1000]
		| join(",")' /tmp/fio.json >>/job/out/bench.csv
	tail -n 1 /job/out/bench.csv
}

# profiled NAME COMMAND...: runs it; with a profiler in /job/suite, while that samples what the CPU does once the command has
# begun in earnest. /job/out/NAME.perf has the shares of processes and functions, NAME.calls.perf those of what each process calls,
# NAME.perf.data the samples with their callers.
profiler() { LD_LIBRARY_PATH=/run/profiler /run/profiler/perf "$@"; }
profiled() {
	local data=/dev/shm/perf.data
	if [ ! -d /run/profiler ]; then
		"${@:2}"
		return
	fi
	profiler record -q -a -g -e cpu-clock -F 1000 -D 650 -o $data -- "${@:2}"
	profiler report -i $data --no-children -g none --stdio --percent-limit 0.05 --sort comm,dso,symbol >"/job/out/$1.perf"
	profiler report -i $data --children -g none --stdio --percent-limit 0.2 --sort comm,symbol >"/job/out/$1.calls.perf"
	cp $data "/job/out/$1.perf.data"
}
[ ! -d /job/suite ] || cp -r /job/suite /run/profiler

for round in $(seq "$ROUNDS"); do
	for job in ${JOBS:-4k_rr_q1 4k_rw_q1 4k_rr_q16 4k_rw_q16 4k_rr_q32 4k_rw_q32 256k_r_q4 256k_w_q4}; do
		must "$job.$round" bench $job "$round"
	done
done
