#!/usr/bin/env bash
# The demo: a target with a file store on loopback, an initiator that logs in, writes, reads back and compares, then
# measures. Usage: demo.sh BIN. Needs no privilege. Ends everything it started.
set -euo pipefail
bin=$(cd "$1" && pwd)
dir=$(mktemp -d)
daemon=

finish() {
  if [ -n "$daemon" ]; then
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  rm -rf "$dir"
}
trap finish EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
ctl() { "$bin/srptctl" --socket "$dir/srptd.sock" "$@"; }

say "srptd: a target on 127.0.0.2 with a 256 MiB file store"
"$bin/srptd" --config /dev/null --listen 127.0.0.2 --plugin-dir "$bin/plugins" --admin-socket "$dir/srptd.sock" --log-level warn \
  --lun "lun=0,name=demo,path=$dir/disk.img,size=256MiB" &
daemon=$!
for _ in $(seq 300); do
  ctl status 2>/dev/null | grep -q 'listening$' && break
  kill -0 "$daemon" || exit 1
  sleep 0.1
done
ctl status

say "how a Linux initiator logs in (write this to its add_target file)"
ctl connect-info

say "our initiator logs in, writes every block, reads it back and compares"
ctl bench --verify --overwrite --block 64KiB --depth 16

say "throughput, two channels, depth 16"
ctl bench --pattern randread --block 4KiB --depth 16 --time 4s &
load=$!
sleep 2
ctl sessions
wait "$load"
ctl bench --pattern randwrite --overwrite --block 4KiB --depth 16 --time 3s
ctl bench --pattern read --block 256KiB --depth 8 --time 3s
ctl bench --pattern write --overwrite --block 256KiB --depth 8 --time 3s

say "the daemon ends"
kill -TERM "$daemon"
wait "$daemon"
daemon=
echo "done: everything that was started has ended"
