# Network: a veth pair. v0, in the guest's own namespace, carries the kernel's rdma_rxe and ib_srp; v1, in the namespace tgt,
# is the target's. The kernel's rxe owns UDP port 4791 of the first namespace, so the target cannot be there.

V0_MAC=02:67:6f:73:72:00
V1_MAC=02:67:6f:73:72:01
V0_IP4=10.77.0.1
V1_IP4=10.77.0.2
V0_IP6=fd77::1
V1_IP6=fd77::2
V1_LINK6=fe80::67:6fff:fe73:7201

tgt() { ip netns exec tgt "$@"; }

# net_up [MTU]: every packet of each end is handled on one CPU, for a veth whose sender moves between CPUs reorders.
net_up() {
	local mtu=${1:-4200}
	sysctl -qw net.ipv6.conf.default.accept_dad=0
	ip netns add tgt
	tgt sysctl -qw net.ipv6.conf.default.accept_dad=0
	tgt ip link set lo up
	ip link add v0 address $V0_MAC type veth peer name v1 address $V1_MAC netns tgt
	echo 1 >/sys/class/net/v0/queues/rx-0/rps_cpus
	tgt sh -c 'echo 1 >/sys/class/net/v1/queues/rx-0/rps_cpus'
	net_mtu "$mtu"
	ip link set v0 up
	tgt ip link set v1 up
	net_addresses
}

net_addresses() {
	ip addr replace $V0_IP4/24 dev v0
	ip addr replace $V0_IP6/64 dev v0 nodad
	tgt ip addr replace $V1_IP4/24 dev v1
	tgt ip addr replace $V1_IP6/64 dev v1 nodad
	until_true 10 ping -c 1 -W 1 $V1_IP4
	until_true 10 ping -c 1 -W 1 $V1_LINK6%v0
}

net_mtu() {
	ip link set v0 mtu "$1"
	tgt ip link set v1 mtu "$1"
}

net_down() {
	ip link del v0
	ip netns del tgt
}

# netem_ours / netem_theirs OPTIONS...: disturbs what the target sends, or what the initiator sends. netem_off ends both.
netem_ours() { $IN_NAMESPACE tc qdisc replace dev v1 root netem limit 10000 "$@"; }
netem_theirs() { tc qdisc replace dev v0 root netem limit 10000 "$@"; }
netem_off() {
	$IN_NAMESPACE tc qdisc del dev v1 root 2>/dev/null || true
	tc qdisc del dev v0 root 2>/dev/null || true
}

# rxe_up: the software RoCE device rxe0 on v0, with the GIDs of all of v0's addresses.
rxe_up() {
	modprobe -a rdma_rxe ib_umad ib_uverbs rdma_ucm
	rdma link add rxe0 type rxe netdev v0
	until_true 10 rxe_has_gid 0a4d:0001
	until_true 10 rxe_has_gid fd77:
	until_true 10 rxe_has_gid fe80:
}

rxe_has_gid() { grep -q "$1" /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null; }

rxe_down() { rdma link delete rxe0; }

rxe_counters() { grep -H . /sys/class/infiniband/rxe0/ports/1/hw_counters/* | sed 's,.*/,,' | grep -v ':0$'; }
show_network() {
	ip -s link show v0
	tgt ip -s link show v1
	tgt nstat -az 2>/dev/null | grep -E 'Udp6?(RcvbufErrors|InErrors|InCsumErrors|NoPorts)'
	rxe_counters
}
EVIDENCE+=(show_network)
