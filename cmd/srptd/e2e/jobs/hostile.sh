# A hostile initiator over the kernel's RDMA stack: every login and unit that no initiator may send, each with the answer that it has to get,
# while a session of the kernel's goes on.
. /job/lib/lib.sh

# The limits and names that the tables are written for.
ID_EXT=0000000000001000
IOC_GUID=0000000000002000
LOGIN_LIMITS='{queue_depth: 16, max_channels: 2}' target_up "$STORE/disk0.img 16MiB"
setup initiator_load
setup login
KERNELS=$(srp_hosts)
LOAD_MIB=1
setup load_start kernels "$(disk 0)"
messages_seen

# suite TESTS: copies the program first, for the job directory is too slow to run it from.
suite() {
	install -D -m 755 /job/bin/hostile.test /usr/local/bin/hostile.test
	GOSRPT_HOSTILE=$V0_IP4,$V1_IP4:$PORT timeout 500 hostile.test -test.v -test.run "$1" -test.timeout 480s >/tmp/suite.log 2>&1 || {
		cp /tmp/suite.log "/job/out/$1.log"
		grep -A 4 -E '^ *--- FAIL|^panic|^fatal|^FAIL' /tmp/suite.log | tail -n 100
		return 1
	}
	cp /tmp/suite.log "/job/out/$1.log"
	no grep -E '^ *--- SKIP' /tmp/suite.log
	grep -c -E '^ *--- PASS' /tmp/suite.log
}
check every_login_is_answered suite EveryLogin
check every_unit_is_answered suite EveryUnit

alone() { [ "$(sessions)" = 1 ]; }
nothing_left() {
	until_true 60 alone
	ctl status --output json | jq -e '[.counters.logins_refused // 0 | tonumber] | add > 20'
	no grep -a -E 'panic|DATA RACE|fatal error|goroutine [0-9]+ \[' $SRPTD_LOG
}
check nothing_is_left_of_them nothing_left
kernels_session() {
	load_runs kernels
	undisturbed "$KERNELS"
}
check the_kernels_session_went_on kernels_session
check the_kernels_session_read_what_it_wrote load_stop kernels
check logs_out logout
again() {
	login
	logout
}
check logs_in_again again
check srptd_ends_when_asked srptd_ends_in_order
