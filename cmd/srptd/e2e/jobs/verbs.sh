# The provider verbs over the kernel's rxe: the suite that every provider passes, on two devices and on one.
. /job/lib/lib.sh

setup pair_up 4200
setup pair_rxe

# suite ADDRESSES: copies the program first, for the job directory is too slow to run it from.
suite() {
	install -D -m 755 /job/bin/verbs.test /usr/local/bin/verbs.test
	GOSRPT_VERBS=$1 timeout 600 verbs.test -test.v -test.run "${SUITE:-.}" -test.timeout 580s >/tmp/suite.log 2>&1 || {
		cp /tmp/suite.log "/job/out/suite-$1.log"
		grep -B 8 -A 2 -E '^ *--- FAIL|^panic|^fatal|^FAIL' /tmp/suite.log | tail -n 100
		return 1
	}
	cp /tmp/suite.log "/job/out/suite-$1.log"
	tail -n 3 /tmp/suite.log
}
nothing_left() {
	for kind in qp cq mr pd cm_id; do
		rdma resource show $kind >/tmp/objects
		no grep -v -F 'comm [' /tmp/objects
	done
}

check suite_on_two_devices suite "$V0_IP4,$V1_IP4,10.77.0.77"
check suite_on_one_device suite "$V1_IP4,$V1_IP4,10.77.0.77"
check suite_over_ipv6 suite "$V0_IP6,$V1_IP6,fd77::77"
check nothing_is_left nothing_left
