# Initiator: the kernel's ib_srp.

ID_EXT=0002c90300a1b2c3
IOC_GUID=0002c90300a1b2c4
PORT=5555

# initiator_load [MODULE PARAMETERS...]
initiator_load() {
	modprobe -r ib_srp 2>/dev/null || true
	modprobe -a sd_mod sg
	modprobe ib_srp "$@"
	until_true 10 initiator_ready
}

# initiator_ready [DEVICE]: ib_srp has taken it up, without one that of RXE, or rxe0.
initiator_ready() { [ -e "/sys/class/infiniband_srp/srp-${1:-${RXE:-rxe0}}-1/add_target" ]; }

# login [DEST [OPTIONS]]: DEST is an address as ib_srp wants it; OPTIONS as "a=1,b=2". It returns when there is a disk.
login() {
	ask_login "$@"
	until_true 30 disk 0
}

# ask_login is the login alone, from $RXE, by default rxe0. Bounded: a target that never answers would hold add_target for more than a minute.
ask_login() {
	local dest=${1:-$V1_IP4} options=${2:-}
	timeout 90 sh -c "echo 'id_ext=$ID_EXT,ioc_guid=$IOC_GUID,dest=$dest:$PORT${SRC:+,src=$SRC}${options:+,$options}' \
		>/sys/class/infiniband_srp/srp-${RXE:-rxe0}-1/add_target"
}

# rejections REASON: how many refusals with that reason, in eight digits with 0x, the kernel has told of.
rejections() { dmesg | grep -c "SRP LOGIN .*REJECTED, reason $1" || true; }

# Options that let one SCSI command carry 4 MiB: by indirect descriptor tables of up to 2048 entries.
WIDE=cmd_sg_entries=255,allow_ext_sg=1,sg_tablesize=2048,max_sect=8192

# srp_hosts: the host numbers of the sessions.
srp_hosts() { grep -lx ib_srp /sys/class/scsi_host/host*/proc_name 2>/dev/null | sed 's,.*/host\([0-9]*\)/.*,\1,' | sort -n; }

# disk LUN [HOST]: the block device of a LUN in the newest session, or in that of a host number; fails while it is not there.
disk() {
	local host dev
	host=${2:-$(srp_hosts | tail -n 1)}
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

# logout_of HOST: ends one session.
logout_of() {
	echo 1 >"/sys/class/srp_remote_ports/port-$1:1/delete"
	until_true 60 no test -e "/sys/class/scsi_host/host$1"
}

# initiator_id [EXT]: the port identifier with which it logs in: initiator_ext and the interface half of the device's first GID.
initiator_id() { printf '0x%s%s\n' "${1:-0000000000000000}" "$(cut -d: -f5-8 /sys/class/infiniband/rxe0/ports/1/gids/0 | tr -d :)"; }

# messages_seen: what the kernel has said until now does not count for undisturbed.
messages_seen() { dmesg | wc -l >/run/messages.seen; }

# undisturbed HOST: since then the session has not been disturbed, and no command of its disks has failed, been aborted or waited
# for a reset.
undisturbed() {
	local disks
	disks=$(ls -d /sys/class/scsi_host/host"$1"/device/target*/*/block/* | sed 's,.*/,,' | paste -s -d '|')
	dmesg | tail -n +"$(($(cat /run/messages.seen) + 1))" >/tmp/messages
	grep -E "(^|[^0-9:])$1:[0-9]+:[0-9]+:|host$1:${disks:+|$disks}" /tmp/messages >/tmp/disk.messages || true
	no grep -i -E 'error|failed|failing|offline|reset|abort|reconnect|timed? ?out|REJECTED|logout|DREQ' /tmp/disk.messages
}

channels() { cat /sys/class/scsi_host/host"$(srp_hosts | tail -n 1)"/ch_count; }

show_initiator() {
	lsscsi
	dmesg | grep -v 'audit' | tail -n 40
}
EVIDENCE+=(show_initiator)
