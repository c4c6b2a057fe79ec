# A job that never ends, for the test of what happens then.
. /job/lib/lib.sh

check begins true
sleep 100000
check ends true
