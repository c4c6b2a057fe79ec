# Target: srptd, in the namespace tgt.

SRPTD_SOCKET=/run/gosrpt/srptd.sock
PLUGIN_DIR=/usr/local/lib/gosrpt/plugins
SRPTD_CONFIG=/etc/gosrpt/srptd.yaml
SRPTD_LOG=/job/out/srptd.log

ctl() { srptctl --socket $SRPTD_SOCKET "$@"; }

# PROVIDER is the RDMA provider. With roce the target is in a namespace of its own. With verbs it is in the kernel's rxe's namespace, on
# rxe1, or with KIND=siw on siw1; with SAME_DEVICE set on rxe0, the initiator's.
PROVIDER=${PROVIDER:-roce}
SRPTD=srptd
[ $PROVIDER = roce ] || SRPTD=srptd-$PROVIDER
IN_NAMESPACE="ip netns exec tgt"

fabric_up() {
	case $PROVIDER in
	roce)
		setup net_up "${MTU:-4200}"
		setup rxe_up
		;;
	verbs)
		setup pair_up "${MTU:-4200}"
		setup pair_${KIND:-rxe}
		IN_NAMESPACE=
		SRC=$V0_IP4
		if [ -n "${SAME_DEVICE:-}" ]; then
			V1_IP4=$V0_IP4 V1_IP6=$V0_IP6 SRC=
		fi
		;;
	esac
}

# srptd_install: from the job directory, which is too slow to run a program from.
srptd_install() {
	mkdir -p $PLUGIN_DIR /usr/local/bin /run/gosrpt /etc/gosrpt
	install -m 755 /job/bin/$SRPTD /usr/local/bin/srptd
	install -m 755 /job/bin/srptctl /job/bin/dmquery /usr/local/bin/
	install -m 755 /job/bin/auth* /job/bin/ioctx* /job/bin/backstore-* $PLUGIN_DIR/
	sysctl -qw kernel.core_pattern=/job/out/core.%e.%p
}

# The slowness told to the initiator. 22 makes rxe wait 17 s before it resends what nobody acknowledged: with its default
# registration a resend can kill its queue, so it is better late than for nothing. 16 makes that 2 s.
ACK_DELAY=22

# srptd_config LUN...: writes the configuration. A LUN is "PATH SIZE"; its number is its place. LISTEN and INTERFACES are lists in YAML,
# MAX_TRANSFER is the longest transfer of a command, LOGIN_LIMITS a mapping in YAML.
srptd_config() {
	local n=0 lun
	cat <<-END
		provider: $PROVIDER
		listen: ${LISTEN:-[$(listen_addresses)]}
		port: $PORT
		target: {id_ext: "$ID_EXT", ioc_guid: "$IOC_GUID"}
		plugin_dir: [$PLUGIN_DIR]
		admin: {socket: $SRPTD_SOCKET}
		login: ${LOGIN_LIMITS:-{\}}
		session: {max_transfer: ${MAX_TRANSFER:-4MiB}}
		roce: {target_ack_delay: $ACK_DELAY, interfaces: ${INTERFACES:-[]}}
		luns:
	END
	for lun in "$@"; do
		cat <<-END
			  - lun: $n
			    name: disk$n
			    plugin: backstore-file
			    config: {path: ${lun% *}, size: ${lun#* }}
		END
		n=$((n + 1))
	done
}

listen_addresses() {
	echo "\"$V1_IP4\", \"$V1_IP6\""
	[ $PROVIDER != roce ] || echo ", \"$V1_LINK6%v1\""
	[ -z "${ALSO_LISTEN:-}" ] || echo ", \"$ALSO_LISTEN\""
}

# srptd_launch: only starts it. Its exit status will be in /run/srptd.status.
srptd_launch() {
	rm -f /run/srptd.status
	setsid $IN_NAMESPACE sh -c "ulimit -c unlimited; ulimit -l unlimited
		srptd --config $SRPTD_CONFIG >>$SRPTD_LOG 2>&1 &
		echo \$! >/run/srptd.pid
		wait \$!
		echo \$? >/run/srptd.status" &
}

# srptd_start: returns when all listeners listen and all LUNs are ready.
srptd_start() {
	srptd_launch
	until_true 90 srptd_ready_or_ended
	srptd_ready
}

srptd_ready() {
	ctl status --output json | jq -e '
		(.listeners | length > 0 and all(.state == "listening")) and (.luns | length > 0 and all(.state == "ready"))'
}
srptd_ended() { [ -s /run/srptd.status ]; }
srptd_ready_or_ended() { srptd_ready || srptd_ended; }

# srptd_stop: asks it to end, and waits until it has, without an error of its own. One that does not end leaves the stacks of
# its goroutines in its log.
srptd_stop() {
	kill -TERM "$(cat /run/srptd.pid)"
	if ! until_true 30 srptd_ended; then
		kill -QUIT "$(cat /run/srptd.pid)"
		until_true 10 srptd_ended
		return 1
	fi
	[ "$(cat /run/srptd.status)" = 0 ]
}

# srptd_ends_in_order: it ends when asked, every plugin by itself, and neither it nor a plugin has crashed before.
srptd_ends_in_order() {
	srptd_stop
	sed -n '/ srptd: stopping$/,$p' $SRPTD_LOG | tee /tmp/stopping.log
	grep 'plugin process exited' /tmp/stopping.log
	no grep -E 'signal: killed|killing the plugin|failed to exit gracefully' /tmp/stopping.log
	no pgrep -f "^$PLUGIN_DIR/"
	no ls /job/out/core.*
	no grep -a -E 'panic|DATA RACE|fatal error|goroutine [0-9]+ \[' $SRPTD_LOG
}

# said TEXT...: srptd's log has a line with all the texts.
said() {
	local lines text
	lines=$(grep -a -F -e "$1" $SRPTD_LOG)
	for text in "${@:2}"; do
		lines=$(grep -F -e "$text" <<<"$lines")
	done
}

# plugin NAME FILTER: jq's answer about a plugin, whose name is its kind or its LUN's.
plugin() { ctl plugin list --output json | jq -e -r --arg name "$1" '.plugins[] | select(.name == $name) | '"$2"; }
plugin_is() { [ "$(plugin "$1" .state)" = "$2" ]; }

# counter_sum REGEX: the sum of the fabric counters whose whole names match. They are published some hundredths of a second
# late, hence the wait.
counter_sum() {
	sleep 0.5
	ctl status --output json | jq --arg re "^($1)\$" '[.devices[].counters | to_entries[] | select(.key | test($re)) | .value | tonumber] | add // 0'
}

# in_use: what the daemon has in use, which is the same whenever the same initiators are logged in and idle.
in_use() {
	ctl status --output json | jq -c '.counters | {goroutines: .process_goroutines, files: .process_open_files, channels,
		leases: [to_entries[] | select(.key | test("^arena_.*_held$")) | .value | tonumber] | add}'
}

# shares_receives: the channels that there are have receives of a shared queue promised.
shares_receives() { ctl status --output json | jq -e '[.counters | to_entries[] | select(.key | test("^shared_receives_.*_promised$")) | .value | tonumber] | add > 0'; }

# srptd_jiffies: the CPU time that it has used, in hundredths of a second.
srptd_jiffies() { awk '{ print $14 + $15 }' "/proc/$(cat /run/srptd.pid)/stat"; }

# sessions: how many sessions the target has.
sessions() { ctl sessions --output json | jq '.sessions | length'; }

show_srptd() {
	tail -n 40 $SRPTD_LOG
	timeout 10 srptctl --socket $SRPTD_SOCKET status
	timeout 10 srptctl --socket $SRPTD_SOCKET sessions
}
EVIDENCE+=(show_srptd)
