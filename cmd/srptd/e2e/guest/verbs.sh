# The tests of the provider verbs, on devices of the guest.

# suite NAME ADDRESSES: the suite that every provider passes. The program is copied first, for the job directory is too slow to run it from.
suite() {
	install -D -m 755 /job/bin/verbs.test /usr/local/bin/verbs.test
	ulimit -l unlimited # siw keeps root to it as well
	GOSRPT_VERBS=$2 timeout 600 verbs.test -test.v -test.run "${SUITE:-.}" -test.timeout 580s >"/tmp/suite-$1.log" 2>&1 || {
		grep -B 8 -A 2 -E '^ *--- FAIL|^panic|^fatal|^FAIL' "/tmp/suite-$1.log" | tail -n 100
		return 1
	}
	tail -n 3 "/tmp/suite-$1.log"
}

two_devices() { suite two-devices "$V0_IP4,$V1_IP4,10.77.0.77"; }
one_device() { suite one-device "$V1_IP4,$V1_IP4,10.77.0.77"; }
over_ipv6() { suite ipv6 "$V0_IP6,$V1_IP6,fd77::77"; }

# nothing_left: no process has an object of RDMA.
nothing_left() {
	for kind in qp cq mr pd cm_id; do
		rdma resource show $kind >/tmp/objects
		no grep -v -F 'comm [' /tmp/objects
	done
}
