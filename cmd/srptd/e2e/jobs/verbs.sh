# The provider verbs over the kernel's rxe: the suite that every provider passes, on two devices and on one.
. /job/lib/lib.sh

setup pair_up 4200
setup pair_rxe
check suite_on_two_devices two_devices
check suite_on_one_device one_device
check suite_over_ipv6 over_ipv6
check nothing_is_left nothing_left
