# Stores: where the LUNs' bytes are. /dev/vdb is a file system that takes direct I/O, /dev/vdc a bare block device.

STORE=/store

store_up() {
	mkfs.ext4 -q -F /dev/vdb
	mkdir -p $STORE
	mount /dev/vdb $STORE
}

# target_up LUN...: everything from nothing to a target that answers; a LUN is "PATH SIZE". MTU as net_up's.
target_up() {
	fabric_up
	setup store_up
	setup srptd_install
	srptd_config "$@" >$SRPTD_CONFIG
	setup srptd_start
}
