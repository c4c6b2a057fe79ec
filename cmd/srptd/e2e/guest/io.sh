# I/O: what jobs do with a disk.

# verify DEVICE BLOCKSIZE DEPTH BYTES: writes random blocks with a checksum in each, then reads and checks all of them.
verify() {
	[ -b "$1" ] # fio would make a file of that name and be content with it
	timeout 300 fio --name=verify --filename="$1" --direct=1 --ioengine=libaio --rw=randwrite --bs="$2" --iodepth="$3" \
		--size="$4" --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed="$RANDOM"
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
