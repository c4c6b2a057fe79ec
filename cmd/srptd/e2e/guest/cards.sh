# A second port of each side: a pair of network cards that are wired to each other. n0, in the guest's own namespace, carries rxe1; n1, in the
# namespace tgt, is the target's, and is unplugged and replugged as the PCI device that it is.

N0_MAC=02:67:6f:73:80:00
N1_MAC=02:67:6f:73:80:01
N0_IP4=10.78.0.1
N1_IP4=10.78.0.2
N1_OTHER=10.78.0.3 # another address of n1

# card MAC: the name of the card in this namespace.
card() { grep -l -x "$1" /sys/class/net/*/address | head -n 1 | cut -d/ -f5 | grep .; }

cards_up() {
	modprobe virtio_net
	until_true 20 card $N0_MAC
	ip link set "$(card $N0_MAC)" name n0 mtu 4200 up
	ip addr add $N0_IP4/24 dev n0
	until_true 20 card $N1_MAC
	basename "$(dirname "$(readlink -f "/sys/class/net/$(card $N1_MAC)/device")")" >/run/n1.pci
	card_in
	rxe1_up
}

# card_in: gives the target its card.
card_in() {
	until_true 20 card $N1_MAC
	local name
	name=$(card $N1_MAC)
	ip link set "$name" netns tgt
	tgt ip link set "$name" name n1 mtu 4200 up
	tgt ip addr add $N1_IP4/24 dev n1
	tgt ip addr add $N1_OTHER/24 dev n1
}

card_unplug() { echo 1 >"/sys/bus/pci/devices/$(cat /run/n1.pci)/remove"; }
card_plug() {
	echo 1 >/sys/bus/pci/rescan
	card_in
}

rxe1_up() {
	rdma link add rxe1 type rxe netdev n0
	until_true 10 grep -q 0a4e:0001 /sys/class/infiniband/rxe1/ports/1/gids/1
}
rxe1_down() { rdma link delete rxe1; }
