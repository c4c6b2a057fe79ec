# What tests/srp/rc of the blktests suite is given last, when srptd takes the place of the kernel's target: how to start and
# stop it, where to log in, and by which names its disks are known. The suite's own RDMA device is the initiator's alone.

blk_conf=/tmp/multipath.conf

# blk_ctl ARGS...: the suite exports no functions, so the library's ctl is not there.
blk_ctl() { timeout 20 srptctl --socket "$SRPTD_SOCKET" "$@"; }

start_target() {
	local i lun=0
	_init_scsi_debug delay=0 dev_size_mb=$((ramdisk_size >> 20)) dif=3 dix=1 || return $?
	vdev_path[2]=/dev/${SCSI_DEBUG_DEVICES[0]}
	{
		cat "$BLK_CONFIG"
		for i in "${!vdev_path[@]}"; do
			dd if=/dev/zero of="${vdev_path[i]}" bs=1M count=$((ramdisk_size >> 20)) oflag=direct 2>>"$FULL" || return $?
			mkdir -p "$(mountpoint "$i")" || return $?
			echo "  - {lun: $i, name: disk$i, plugin: backstore-file, config: {path: ${vdev_path[i]}}}"
		done
	} >"$SRPTD_CONFIG"
	# In a shell of its own: the suite waits for all its children.
	(
		setsid ip netns exec tgt srptd --config "$SRPTD_CONFIG" >>"$SRPTD_LOG" 2>&1 &
		echo $! >/run/blk.pid
	)
	for ((i = 0; i < 600; i++)); do
		lun=$(blk_ctl status --output json 2>/dev/null | jq '[.luns[] | select(.state == "ready")] | length')
		[ "${lun:-0}" = ${#vdev_path[@]} ] && break
		sleep .1
	done
	blk_ctl status >>"$FULL" 2>&1
	[ "${lun:-0}" = ${#vdev_path[@]} ] || return 1
	echo "Configured SRP target driver"
}

stop_target() {
	local pid
	if pid=$(cat /run/blk.pid 2>/dev/null); then
		rm -f /run/blk.pid
		kill -TERM "$pid" 2>/dev/null
		timeout 40 tail --pid="$pid" -f /dev/null || return 1
	fi
	_exit_scsi_debug
}

# log_in makes two paths: one by IPv4 and one by IPv6. Each is a nexus of its own, for a login that names the nexus of
# another path replaces it. While the initiator still takes a path down it refuses to log in again, and what is there then
# is soon gone: so at least one login has to work, unless all are refused for a second.
log_in() {
	local p dest n i worked=
	for ((i = 0; i < 20; i++)); do
		for p in /sys/class/infiniband_srp/srp-*; do
			[ -e "$p" ] || continue
			n=0
			for dest in "$V1_IP4:$PORT" "[$V1_LINK6%$(</sys/class/net/v0/ifindex)]:$PORT"; do
				n=$((n + 1))
				srp_single_login "id_ext=$ID_EXT,ioc_guid=$IOC_GUID,initiator_ext=000000000000000$n,dest=$dest${srp_login_params:+,$srp_login_params}" \
					"$p/add_target" && worked=yes
			done
		done
		for p in /sys/class/scsi_host/*/orig_dgid; do
			if [ -e "$p" ] && [ -n "$worked" -o $i -ge 10 ]; then
				show_srp_connections &>>"$FULL"
				return 0
			fi
		done
		sleep .1
	done
	echo "SRP login failed"
	return 1
}

# get_bdev_path LUN: multipath names a disk by its locally assigned NAA name, or by vendor, product and serial number when udev
# was not asked yet.
get_bdev_path() {
	local name path
	name=$(blk_ctl status --output json |
		jq -e -r --argjson lun "$1" '.luns[] | select(.lun == $lun) | "3\(.naa) 1GOSRPT_SRP_DISK_\(.serial)"') || return $?
	for name in $name; do
		path=/dev/disk/by-id/dm-uuid-mpath-$name
		[ -e "$path" ] && break
	done
	echo "$path"
}

# The suite's rules for multipath name the vendors of other targets.
setup() {
	sed 's/LIO-ORG|/LIO-ORG|GOSRPT|/' "$PWD/tests/srp/multipath.conf" >"$blk_conf"
	setup_test "$blk_conf"
}
