# What SCSI tools see: sg3_utils, multipath's path checker and the libiscsi test suites of the opcodes that srptd has.
. /job/lib/lib.sh

# LUN 1 is small enough for every WRITE SAME that the tool makes to be read back in one command. LUN 2 can compare and write.
target_up "$STORE/disk0.img 64MiB" "$STORE/disk1.img 31MiB" "$STORE/disk2.img 8MiB,\"engine\":pool"
setup initiator_load
setup login $V1_IP4 $WIDE

D=$(disk 0)
check test_unit_ready sg_turs "$D"
inquiry() { sg_inq "$D" | tee /dev/stderr | grep -q 'Vendor identification'; }
check inquiry inquiry
vpd() { for page in sv sn di bl; do sg_vpd --page=$page "$D"; done; }
check vital_product_data vpd
unknown_vpd_page() { no sg_vpd --page=0xc5 "$D"; }
check unknown_vpd_page_is_refused unknown_vpd_page
names_differ() { [ "$(sg_vpd --page=di "$(disk 0)")" != "$(sg_vpd --page=di "$(disk 1)")" ]; }
check luns_have_names_of_their_own names_differ
modes() { sg_modes -a "$D" && sg_modes -6 -a "$D"; }
check mode_sense modes
opcodes() { sg_opcodes "$D" | tee /dev/stderr | grep -q 'Read(10)'; }
check supported_opcodes opcodes
luns() { sg_luns "$D" | tee /dev/stderr | grep -q 'Lun list length = 24 '; }
check report_luns luns
check request_sense sg_requests "$D"
capacity() { [ "$(sg_readcap --brief --16 "$D")" = "0x20000 0x200" ]; }
check read_capacity capacity
check synchronize_cache sg_sync "$D"
bad_opcode() {
	local status=0
	sg_raw "$D" c1 00 00 00 00 00 || status=$?
	[ $status = 9 ] # sg3_utils: illegal request, invalid opcode
}
check unknown_opcode_is_refused bad_opcode
beyond_end() {
	local status=0
	sg_raw -r 512 "$D" 28 00 ff ff ff ff 00 00 01 00 || status=$?
	[ $status = 22 ] # sg3_utils: LBA out of range
}
check read_beyond_the_end_is_refused beyond_end

# Two sessions are two paths to the same LUNs.
second_path() {
	local first
	first=$(disk 0)
	login $V1_IP4 "initiator_ext=0000000000000002,$WIDE"
	until_true 20 disk 2
	[ "$(disk 0)" != "$first" ]
}
check second_session_is_a_second_path second_path
paths_active() { [ "$(multipathd show paths raw format '%t %o %T' | grep -c '^active running ready')" = 6 ]; } # three LUNs by two
path_checker() {
	modprobe -a dm-multipath dm-service-time dm-round-robin
	/lib/systemd/systemd-udevd --daemon
	udevadm trigger --subsystem-match=block
	udevadm settle --timeout=30
	cat >/etc/multipath.conf <<-END
		defaults { find_multipaths no; path_checker tur; polling_interval 2; user_friendly_names no; }
		blacklist { devnode "^vd"; }
	END
	sed -i 's/; */\n/g; s/{ /{\n/; s/ }/\n}/' /etc/multipath.conf
	multipathd
	until_true 30 paths_active
}
check path_checker_finds_all_paths_ready path_checker
mapped() {
	local map
	map=$(multipathd show maps raw format '%n' | head -n 1)
	until_true 10 test -b "/dev/mapper/$map"
	verify "/dev/mapper/$map" 4k 8 256k
	multipathd shutdown || true # its answer can get lost with it
	until_true 10 multipath -F
}
check multipath_device_returns_what_was_written mapped

# suite DISK NAME [TEST]: every test of the suite must pass but TEST, of which the tool is wrong; one that skips has not, but for those that
# need physical blocks of several logical ones (LBPPB), which the file system of the store may not have. A unit without UNMAP skips a lot,
# so it does not pass. What the tool says before the suite is about opcodes that other suites need.
suite() {
	local wrong=0
	timeout 600 iscsi-test-cu --dataloss --verbose --test "ALL.$2" "$1" >/tmp/suite.out 2>&1 || true
	sed -n '/^Suite: /,$p' /tmp/suite.out | tee /tmp/suite.body
	if [ -n "${3:-}" ]; then
		wrong=1
		awk -v name="$3" '/^ *Test: / { skip = $2 == name } /Run Summary/ { skip = 0 } !skip' /tmp/suite.body >/tmp/suite.others
	else
		cp /tmp/suite.body /tmp/suite.others
	fi
	grep -v 'SKIPPED] LBPPB < 2' /tmp/suite.others >/tmp/suite.rest
	no grep -q -E 'SKIPPED|FAILED' /tmp/suite.rest
	awk -v wrong=$wrong '$1 == "tests" && $2 > 0 && $3 == $2 && $4 + wrong == $2 { all = 1 } END { exit !all }' /tmp/suite.body
}
for s in TestUnitReady Mandatory Inquiry ModeSense6 ReadCapacity10 ReadCapacity16 Read6 Read10 Read12 Read16 Write10 Write12 \
	Write16 ReportSupportedOpcodes Unmap; do
	check "libiscsi_$s" suite "$D" $s
done
# UnmapUntilEnd writes a block of FFh with the UNMAP bit and wants zeroes: only zeroes may be unmapped by it (SBC-3 5.42).
check libiscsi_WriteSame10 suite "$(disk 1)" WriteSame10 UnmapUntilEnd
check libiscsi_WriteSame16 suite "$(disk 1)" WriteSame16

compare_and_write() {
	local dev=$(disk 2) status=0
	dd if="$dev" of=/tmp/caw bs=512 skip=5 count=1 iflag=direct
	head -c 512 /dev/urandom >/tmp/caw.new
	cat /tmp/caw.new >>/tmp/caw
	sg_compare_and_write --in=/tmp/caw --lba=5 --num=1 --xferlen=1024 "$dev"
	dd if="$dev" of=/tmp/caw.read bs=512 skip=5 count=1 iflag=direct
	cmp /tmp/caw.new /tmp/caw.read
	sg_compare_and_write --in=/tmp/caw --lba=5 --num=1 --xferlen=1024 "$dev" || status=$?
	[ $status = 14 ] # miscompare
	dd if="$dev" of=/tmp/caw.read bs=512 skip=5 count=1 iflag=direct
	cmp /tmp/caw.new /tmp/caw.read
	no sg_compare_and_write --in=/tmp/caw --lba=5 --num=1 --xferlen=1024 "$D"
}
check compare_and_write compare_and_write
check file_holds_the_same_bytes same_bytes "$D" $STORE/disk0.img
