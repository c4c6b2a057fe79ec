# A namespace of an NVMe controller through backstore-nvme: what the initiator sees is what the controller says; the namespace
# holds what was written; and nobody else uses it meanwhile, nor srptd what somebody else uses.
. /job/lib/lib.sh

N=/dev/nvme0n1
Q=/sys/block/nvme0n1/queue

nvme_up() {
	modprobe nvme
	until_true 20 test -b $N
}

# config KEY: VALUE...: the configuration with one LUN of backstore-nvme.
config() {
	srptd_config >$SRPTD_CONFIG
	echo "  - {lun: 0, name: disk0, plugin: backstore-nvme, config: {$1}}" >>$SRPTD_CONFIG
}

setup net_up 4200
setup rxe_up
setup nvme_up
setup srptd_install
config "serial: $NVME_SERIAL, nsid: '1'"
must found_by_serial_and_number srptd_start

mounted() {
	no mount -t ext4 $N /mnt 2>/tmp/mount.out
	grep -i busy /tmp/mount.out
}
check mount_of_a_served_namespace_is_refused mounted
exclusive() { # mkfs claims the device before it writes
	no mkfs.ext4 -q $N >/tmp/mkfs.out 2>&1
	grep 'in use by the system' /tmp/mkfs.out
}
check exclusive_open_of_a_served_namespace_is_refused exclusive

setup initiator_load
must logs_in login $V1_IP4 $WIDE
D=$(disk 0)
B=/sys/block/$(basename "$D")
capacity() { [ "$(sg_readcap --brief --16 "$D")" = "0x20000 0x200" ] && [ "$(cat "$B/size")" = "$(cat /sys/block/nvme0n1/size)" ]; }
check capacity_is_the_namespaces capacity
# MDTS of QEMU's controller is 7: 2^7 pages of 4096 bytes are 1024 blocks.
transfer() {
	[ "$(cat $Q/max_hw_sectors_kb)" = 512 ]
	sg_vpd --page=bl "$D" | tee /dev/stderr | grep -q 'Maximum transfer length: 1024 blocks'
	[ "$(cat "$B/queue/max_hw_sectors_kb")" -ge 512 ] && [ "$(cat "$B/queue/max_sectors_kb")" = 512 ]
}
check longest_transfer_is_the_controllers transfer
cache() { [ "$(cat $Q/write_cache)" = "write back" ] && [ "$(cat "$B/queue/write_cache")" = "write back" ]; }
check write_cache_is_reported cache
fua() { [ "$(cat "$B"/device/scsi_disk/*/FUA)" = 1 ]; }
check fua_is_reported fua

check verify_512 verify "$D" 512 32 64k
check verify_4k verify "$D" 4k 32 2M
check verify_1M verify "$D" 1M 8 32M

files() {
	mkfs.ext4 -q -F "$D"
	mount "$D" /mnt
	cp -a /usr/lib/x86_64-linux-gnu/lib[a-d]*.so* /mnt/
	sync
	(cd /mnt && sha256sum lib*) >/tmp/sums
	umount /mnt
}
check ext4_takes_files files
clean() { fsck.ext4 -f -n "$D"; }
check ext4_fsck_is_clean clean
cp "$D" /dev/shm/image
check logs_out logout
check srptd_ends_when_asked srptd_stop
check namespace_holds_the_same_bytes same_bytes $N /dev/shm/image

# refused TEXT: srptd starts, does not open the LUN, and says so where the operator looks.
refused() {
	srptd_launch
	until_true 60 refusal "$1"
	ctl status --output json
	srptd_stop
}
refusal() { ctl status --output json | jq -e --arg text "$1" '.luns | length == 1 and all(.state | contains($text))'; }

in_use() {
	mount $N /mnt
	(cd /mnt && sha256sum --quiet -c /tmp/sums)
	refused "$N: is in use: $N is mounted on /mnt; unmount it first"
	umount /mnt
}
check mounted_namespace_is_refused_with_its_mount_point in_use
another() {
	config "device: $N, serial: other"
	refused "$N: it is another namespace: its serial is \"$NVME_SERIAL\", want \"other\""
}
check another_serial_is_refused_with_the_true_one another
foreign() {
	modprobe null_blk nr_devices=1
	until_true 10 test -b /dev/nullb0
	config "device: /dev/nullb0"
	refused "/dev/nullb0: is no NVMe namespace; backstore-file serves other block devices"
}
check foreign_device_is_refused foreign

# The last part, for the controller does not come back.
gone() {
	config "device: $N"
	srptd_start
	login
	local disk status=0
	disk=$(disk 0)
	sg_raw -r 512 "$disk" 28 00 00 00 00 00 00 00 01 00
	echo 1 >/sys/block/nvme0n1/device/device/remove
	sg_raw -r 512 "$disk" 28 00 00 00 00 00 00 00 01 00 || status=$?
	[ $status = 2 ] # sg3_utils: not ready
}
check unavailable_once_the_controller_is_gone gone
