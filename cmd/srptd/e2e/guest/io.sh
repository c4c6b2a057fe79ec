# I/O: what jobs do with a disk.

# verify DEVICE BLOCKSIZE DEPTH BYTES: writes random blocks with a checksum in each, then reads and checks all of them, with VERIFY_OPTIONS of
# fio.
verify() {
	[ -b "$1" ] # fio would make a file of that name and be content with it
	timeout 300 fio --name=verify --filename="$1" --direct=1 --ioengine=libaio --rw=randwrite --bs="$2" --iodepth="$3" \
		--size="$4" --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed="$RANDOM" ${VERIFY_OPTIONS:-}
}

# load_start NAME DEVICE: writes and checks the first 16 MiB, or LOAD_MIB, with LOAD_OPTIONS of fio, in the background, one pass of fio after the other, until
# load_stop NAME, which fails if a pass has failed. How many passes have ended is in /run/load.NAME.passes, what fio said in
# /run/load.NAME.log.
LOAD_OPTIONS=
load_start() {
	[ -b "$2" ]
	rm -f "/run/load.$1".*
	load "$1" "$2" >"/run/load.$1.log" 2>&1 &
	echo 0 >"/run/load.$1.passes"
}

# load gives a pass twenty minutes: what is stuck shows as a command without an answer long before.
load() {
	local pass=0 status=0
	while [ ! -e "/run/load.$1.stop" ]; do
		timeout 1200 fio --name="$1" --filename="$2" --direct=1 --ioengine=libaio --rw=randwrite --bs=$((4 << pass % 3))k \
			--iodepth=8 --size="${LOAD_MIB:-16}M" --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed="$RANDOM" $LOAD_OPTIONS \
			--output-format=json --output="/run/load.$1.json" || status=$?
		jq '[.jobs[] | .read.clat_ns.max, .write.clat_ns.max] | max / 1e6 | floor' "/run/load.$1.json" >>"/run/load.$1.longest"
		[ $status = 0 ] || break
		pass=$((pass + 1))
		echo $pass >"/run/load.$1.passes"
	done
	echo $status >"/run/load.$1.status"
}

load_passes() { cat "/run/load.$1.passes"; }

# load_runs NAME: it has not ended, and comes forward.
load_runs() {
	local passes
	passes=$(load_passes "$1")
	until_true 400 load_beyond "$1" "$passes"
	[ ! -e "/run/load.$1.status" ]
}
load_beyond() { [ "$(load_passes "$1")" -gt "$2" ] || [ -e "/run/load.$1.status" ]; }

# load_longest NAME: the longest that one request took, in ms.
load_longest() { sort -n "/run/load.$1.longest" | tail -n 1; }

load_stop() {
	touch "/run/load.$1.stop"
	until_true 400 test -s "/run/load.$1.status"
	cat "/run/load.$1.log"
	[ "$(cat "/run/load.$1.status")" = 0 ]
	[ "$(load_passes "$1")" -gt 0 ]
}

# same_bytes A B: compares whole devices or files; what the page cache holds of a device does not count.
same_bytes() {
	[ -b "$1" ]
	blockdev --flushbufs "$1"
	cmp "$1" "$2"
}

# make_tree DIRECTORY: over 200 MiB of files of many sizes, from the guest's own system.
make_tree() {
	mkdir -p "$1"
	cp -a /usr/lib /usr/bin "$1/"
	local n=0
	while [ "$(du -sm "$1" | cut -f1)" -lt 200 ]; do
		n=$((n + 1))
		cp -a /usr/lib/x86_64-linux-gnu "$1/again$n"
	done
}

# sums DIRECTORY: a checksum of every file's contents and name, and of every link.
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && find . -type l -printf '%p -> %l\n' | sort); }
