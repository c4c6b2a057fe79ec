# The provider verbs over iWARP, by the kernel's siw: srptd with a session of ib_srp, and the suite that every provider passes, on two
# devices and, with PLACES=all, on one and over IPv6.
PROVIDER=verbs KIND=siw RXE=siw0
. /job/lib/lib.sh

target_up "$STORE/disk0.img 16MiB"

shown() {
	ctl fabric | tee /tmp/fabric
	grep -P "^HCA siw1\s.*\sserving$" /tmp/fabric
	grep -P "^\s+port 1\s+Ethernet, iWARP\s+active for " /tmp/fabric
	grep -P "^\s+addresses\s+$V1_IP4 $V1_IP6 fe80::" /tmp/fabric
	grep -P "^\s+discovery\s+off: the device takes no management datagrams" /tmp/fabric
	ctl status >/tmp/status
	no grep -F 'does not answer' /tmp/status
}
check device_is_shown_as_iwarp shown

setup initiator_load
# ib_srp takes its port id from the second half of the GID, which siw has not.
nameless() {
	no ask_login
	dmesg | grep -F "REJ reason 0xffffff98" # ECONNRESET, for MPA has no reasons
	said 'login refused' 'give it an initiator_ext'
}
check login_without_a_name_is_refused nameless
named() {
	login $V1_IP4 initiator_ext=0000000000000001
	[ "$(channels)" = 2 ]
}
check logs_in named
reads_back() {
	verify "$(disk 0)" 512 32 128k
	verify "$(disk 0)" 4k 32 2M
	verify "$(disk 0)" 64k 8 4M
	verify "$(disk 0)" 1M 4 8M
}
check reads_what_was_written reads_back
check file_holds_the_same_bytes same_bytes "$(disk 0)" $STORE/disk0.img
check logs_out logout
freed() { until_true 20 no_session_left; }
no_session_left() { [ "$(sessions)" = 0 ]; }
check target_freed_the_session freed
check srptd_ends_when_asked srptd_ends_in_order
modprobe -r ib_srp

check suite_on_two_devices two_devices
if [ "${PLACES:-}" = all ]; then
	check suite_on_one_device one_device
	check suite_over_ipv6 over_ipv6
fi
check nothing_is_left nothing_left
