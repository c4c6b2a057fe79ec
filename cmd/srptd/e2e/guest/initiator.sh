# Initiator: the kernel's ib_srp.

ID_EXT=0002c90300a1b2c3
IOC_GUID=0002c90300a1b2c4
PORT=5555

# initiator_load [MODULE PARAMETERS...]
initiator_load() {
	modprobe -r ib_srp 2>/dev/null || true
	modprobe -a sd_mod sg
	modprobe ib_srp "$@"
	until_true 10 test -e /sys/class/infiniband_srp/srp-rxe0-1/add_target
}

# login [DEST [OPTIONS]]: DEST is an address as ib_srp wants it; OPTIONS as "a=1,b=2". Bounded: a target that never answers
# would hold add_target for more than a minute.
login() {
	local dest=${1:-$V1_IP4} options=${2:-}
	timeout 90 sh -c "echo 'id_ext=$ID_EXT,ioc_guid=$IOC_GUID,dest=$dest:$PORT${options:+,$options}' \
		>/sys/class/infiniband_srp/srp-rxe0-1/add_target"
	until_true 30 disk 0
}

# Options that let one SCSI command carry 4 MiB: by indirect descriptor tables of up to 2048 entries.
WIDE=cmd_sg_entries=255,allow_ext_sg=1,sg_tablesize=2048,max_sect=8192

# srp_hosts: the host numbers of the sessions.
srp_hosts() { grep -lx ib_srp /sys/class/scsi_host/host*/proc_name 2>/dev/null | sed 's,.*/host\([0-9]*\)/.*,\1,' | sort -n; }

# disk LUN: the block device of a LUN in the newest session; fails while it is not there.
disk() {
	local host dev
	host=$(srp_hosts | tail -n 1)
	dev=$(ls -d /sys/class/scsi_host/host"$host"/device/target*/*:"$1"/block/* 2>/dev/null | head -n 1)
	[ -n "$host" ] && [ -b "/dev/${dev##*/}" ] && echo "/dev/${dev##*/}"
}

# no_sessions: neither SCSI hosts nor queue pairs are left of ib_srp.
no_sessions() { [ -z "$(srp_hosts)" ] && ! rdma resource show qp | grep -q -F 'comm [ib_srp]'; }

# logout: ends all sessions. ib_srp strikes a session off its list a moment after the last trace of it is gone, and until
# then refuses to log in again ("Already connected").
logout() {
	local port
	for port in /sys/class/srp_remote_ports/port-*; do
		echo 1 >"$port/delete"
	done
	until_true 60 no_sessions
	sleep 0.3
}

channels() { cat /sys/class/scsi_host/host"$(srp_hosts | tail -n 1)"/ch_count; }

show_initiator() {
	lsscsi
	dmesg | grep -v 'audit' | tail -n 40
}
EVIDENCE+=(show_initiator)
