# The SRP tests of the blktests suite, against srptd or, with TARGET=kernel, against the kernel's own target.
. /job/lib/lib.sh

# The suite makes and removes the RDMA device and the daemon itself, for each test anew.
blk_setup() {
	modprobe configfs
	mount -t configfs configfs /sys/kernel/config
	/usr/lib/systemd/systemd-udevd --daemon
	udevadm trigger
	udevadm settle
	cp -a /job/suite /tmp/blktests
	printf 'USE_RXE=1\nTIMEOUT=%s\n' "${TIMEOUT:-15}" >/tmp/blktests/config
	mkdir -p /etc/gosrpt /run/gosrpt
}
setup net_up
setup blk_setup

use_srptd() {
	srptd_install
	srptd_config >$BLK_CONFIG
	echo '. /job/lib/blktests.sh' >>/tmp/blktests/tests/srp/rc
}
if [ "${TARGET:-srptd}" = srptd ]; then
	export SRPTD_SOCKET SRPTD_CONFIG SRPTD_LOG ID_EXT IOC_GUID PORT V1_IP4 V1_LINK6 BLK_CONFIG=/run/blk.yaml
	setup use_srptd
fi

BLK_RESULTS=/job/out/blktests

# passes NUMBER: what went on is shown if it does not.
passes() {
	cd /tmp/blktests
	./check -o "$BLK_RESULTS" "srp/$1" || { tail -n 60 "$BLK_RESULTS/nodev/srp/$1.full"; return 1; }
	grep -P "^status\tpass" "$BLK_RESULTS/nodev/srp/$1"
}
for n in $TESTS; do
	check "srp_$n" passes "$n"
done
