# The kernel's own target, ib_srpt with LIO, on the same rxe device as the initiator: rxe hands packets to its own address
# back inside the driver. It proves the lab without srptd, and is what bench-vm compares with.

LIO=/sys/kernel/config/target

# lio_start PATH BYTES | lio_start DEVICE: exports a file or a block device as LUN 0.
lio_start() {
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
	mkdir -p /etc/target/pr /var/target/pr
	modprobe -a target_core_mod target_core_file target_core_iblock ib_srpt
	local store
	if [ -b "$1" ]; then
		store=$LIO/core/iblock_0/disk0
		mkdir -p $store
		echo "udev_path=$1,force=1" >$store/control
	else
		store=$LIO/core/fileio_0/disk0
		mkdir -p $store
		truncate -s "$2" "$1"
		echo "fd_dev_name=$1,fd_dev_size=$2" >$store/control
	fi
	echo gosrpt-lab >$store/wwn/vpd_unit_serial
	echo 1 >$store/enable
	lio_export "$store"
}

lio_export() {
	local gid tpg
	mkdir -p $LIO/srpt
	echo $PORT >$LIO/srpt/discovery_auth/rdma_cm_port
	gid=$(cat /sys/class/infiniband/rxe0/ports/1/gids/0)
	gid=${gid#fe80:0000:0000:0000:}
	tpg=$LIO/srpt/$gid/$gid
	mkdir -p "$tpg/lun/lun_0" "$tpg/acls/$V0_IP4"
	ln -s "$1" "$tpg/lun/lun_0/disk0"
	mkdir -p "$tpg/acls/$V0_IP4/lun_0"
	ln -s "$tpg/lun/lun_0" "$tpg/acls/$V0_IP4/lun_0/l"
	echo 1 >"$tpg/enable"
}

# lio_login [OPTIONS]
lio_login() {
	local guid
	guid=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	ID_EXT=${guid#0x} IOC_GUID=${guid#0x} login $V0_IP4 "${1:-}"
}
