# Reporting: a job promises named checks, and each writes one line to /job/out/results.

RESULTS=/job/out/results
PS4='+ ${SECONDS}s: '
: >>"$RESULTS"

log() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }

ok() { echo "ok $1" | tee -a "$RESULTS"; }

# fail NAME REASON...
fail() { echo "FAIL $*" | tee -a "$RESULTS"; }

# check NAME COMMAND...: runs the command, or function, in a shell of its own that ends at the first failure; reports NAME;
# and on failure shows the trace's last lines. What the command sets in variables is lost. A check must not stand in a
# condition (if, &&, ||): there the shell would not end the command at a failure.
check() {
	local name=$1 trace="/tmp/check-$1.log" status ignored
	shift
	log "check $name"
	ignored=$(set -e; false; echo yes)
	if [ -n "$ignored" ]; then
		fail "$name" "stands in a condition: mend the job"
		exit 1
	fi
	( CHECKING=1; set -exo pipefail; "$@" ) >"$trace" 2>&1
	status=$?
	if [ $status = 0 ]; then
		ok "$name"
		return 0
	fi
	fail "$name" "status $status: $({ tail -n 3 "$trace" | head -n 2; grep -v '^+' "$trace"; } | tail -n 1)"
	tail -n 30 "$trace" | sed 's/^/    /'
	evidence | sed 's/^/    /'
	return 1
}

# must NAME COMMAND...: like check, but a failure ends the job: nothing after it could hold.
must() {
	check "$@"
	local status=$?
	[ $status = 0 ] || exit 1
}

# setup COMMAND...: a must that bears the command's name and is nobody's promise.
setup() { must "setup_$1" "$@"; }

# no COMMAND...: holds when the command fails. A bare "!" would never end a check, wherever it stands.
no() { ! "$@"; }

# until_true SECONDS COMMAND...: asks every tenth of a second, and fails when it never held.
until_true() {
	local end=$(($(date +%s) + $1))
	shift
	{ set +x; } 2>/dev/null # in a check's trace, hundreds of rounds would hide the rest
	until "$@" >/dev/null 2>&1; do
		if [ "$(date +%s)" -ge $end ]; then
			echo "never true: $*"
			return 1
		fi
		sleep 0.1
	done
	[ ! -v CHECKING ] || set -x
}

# Functions that show state at the first failure; the parts of the library add theirs.
EVIDENCE=()
evidence() {
	local f
	[ ! -e /run/evidence ] || return 0
	touch /run/evidence
	for f in "${EVIDENCE[@]}"; do
		echo "--- $f"
		"$f" 2>&1 | tail -n 60
	done
}
