# Two RDMA devices in one network namespace: rxe0 on v0 and rxe1 on v1, the ends of a veth pair. The kernel's rxe lives in the first
# namespace alone, so both ends are in it, and rules send what one end's address sends to the other's out through the pair.

# pair_up [MTU]
pair_up() {
	local mtu=${1:-4200}
	sysctl -qw net.ipv6.conf.default.accept_dad=0
	ip link set lo up
	ip link add v0 address $V0_MAC type veth peer name v1 address $V1_MAC
	pair_end v0 $V0_IP4 $V0_IP6
	pair_end v1 $V1_IP4 $V1_IP6
	pair_route 101 v0 $V0_IP4 $V1_IP4 $V1_MAC
	pair_route 102 v1 $V1_IP4 $V0_IP4 $V0_MAC
	pair_route 101 v0 $V0_IP6 $V1_IP6 $V1_MAC -6
	pair_route 102 v1 $V1_IP6 $V0_IP6 $V0_MAC -6
	# What arrives is for this host; what leaves asks the rules above before it looks whether it is.
	for family in -4 -6; do
		ip $family rule add pref 10 iif v0 lookup local
		ip $family rule add pref 11 iif v1 lookup local
		ip $family rule add pref 100 lookup local
		ip $family rule del pref 0
	done
	ping -c 1 -W 2 -I $V0_IP4 $V1_IP4
}

pair_end() {
	sysctl -qw net.ipv4.conf.$1.accept_local=1 net.ipv4.conf.$1.rp_filter=0
	echo 1 >/sys/class/net/$1/queues/rx-0/rps_cpus
	ip link set $1 mtu "$mtu" up
	ip addr add $2/32 dev $1
	ip addr add $3/128 dev $1 nodad
}

# pair_route TABLE DEVICE FROM TO MAC [-6]
pair_route() {
	ip ${6:-} rule add pref 20 from $3 to $4 lookup $1
	ip ${6:-} route add $4 dev $2 src $3 table $1
	ip ${6:-} neigh replace $4 lladdr $5 dev $2 nud permanent
}

# pair_rxe: rxe0 and rxe1, with the GIDs of all addresses.
pair_rxe() {
	modprobe -a rdma_rxe ib_umad ib_uverbs rdma_ucm
	rdma link add rxe0 type rxe netdev v0
	rdma link add rxe1 type rxe netdev v1
	until_true 10 pair_has_gid rxe0 fd77:
	until_true 10 pair_has_gid rxe1 fd77:
}

pair_has_gid() { grep -q "$2" /sys/class/infiniband/$1/ports/1/gids/* 2>/dev/null; }

# pair_siw: siw0 and siw1, whose only GID is the interface's hardware address.
pair_siw() {
	modprobe -a siw ib_uverbs rdma_ucm
	rdma link add siw0 type siw netdev v0
	rdma link add siw1 type siw netdev v1
	until_true 10 pair_has_gid siw0 "${V0_MAC:0:2}${V0_MAC:3:2}"
	until_true 10 pair_has_gid siw1 "${V1_MAC:0:2}${V1_MAC:3:2}"
}
