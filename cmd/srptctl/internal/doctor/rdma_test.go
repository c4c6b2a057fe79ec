package doctor

import (
	"testing"
)

func TestKernelTargetThatTakesWhatIsOursIsNamed(t *testing.T) {
	f := healthy(t)
	f.check("kernel target", "ok ib_srpt: not loaded")
	const mend = " -> modprobe -r ib_srpt; echo blacklist ib_srpt > /etc/modprobe.d/gosrpt.conf"
	f.put("/sys/module/ib_srpt/refcnt", "0")
	has := func(ports string) string {
		return "it is loaded, and has the Device Management class (discovery) of " + ports + " in srptd's place; logins by address work meanwhile" + mend
	}
	f.check("kernel target", "warning ib_srpt: "+has("every port of an adapter that comes"))
	f.mlx5("InfiniBand", "4: ACTIVE", "0x00080000")
	f.put("/sys/class/infiniband/rxe1/ports/1/state", "4: ACTIVE\n")
	f.check("kernel target", "problem ib_srpt: "+has("mlx5_0 port 1, rxe1 port 1"))
	f.put("/sys/kernel/config/target/srpt/discovery_auth/x", "")
	f.put("/sys/kernel/config/target/srpt/0xfe800000/y", "")
	f.check("kernel target", "problem LIO: the kernel's target serves SRP at 0xfe800000 -> targetcli clearconfig confirm=True, or take /srpt out of it; then modprobe -r ib_srpt")
}

func (f *fake) mlx5(link, state, mask string) {
	const dir = "/sys/class/infiniband/mlx5_0/ports/1/"
	f.put(dir+"link_layer", link+"\n")
	f.put(dir+"state", state+"\n")
	f.put(dir+"cap_mask", mask+"\n")
}

func TestAdaptersWantTheirDeviceFilesAndASubnetManager(t *testing.T) {
	const without = "ok adapters: they are used through their network interfaces: this build has no verbs provider"
	f := healthy(t)
	f.check("rdma", "ok adapters: there is none; the roce provider needs none")
	f.mlx5("Ethernet", "1: DOWN", "0x00010000")
	f.check("rdma", without, "warning mlx5_0: the kernel has made no device file for it: ib_uverbs is not loaded -> modprobe ib_uverbs",
		"warning rdma_cm: /dev/infiniband/rdma_cm is missing -> modprobe rdma_ucm")
	f.Build.Verbs, f.cfg.Provider = true, "verbs"
	f.put("/sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n")
	f.check("rdma", "problem mlx5_0: the kernel has made no device file for it: ib_uverbs is not loaded -> modprobe ib_uverbs",
		"problem rdma_cm: /dev/infiniband/rdma_cm is missing -> modprobe rdma_ucm")
	f.put("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
	f.check("rdma", "problem mlx5_0: the kernel has made no device file for it: ib_uverbs is not loaded -> modprobe ib_uverbs",
		"problem mlx5_0: the kernel has made no device file for it: ib_umad is not loaded -> modprobe ib_umad",
		"problem rdma_cm: /dev/infiniband/rdma_cm is missing -> modprobe rdma_ucm")
	f.mlx5("InfiniBand", "2: INIT", "0x2651e848")
	f.put("/sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0")
	f.put("/sys/class/infiniband_verbs/uverbs0/ibdev", "other")
	f.put("/sys/class/infiniband_verbs/abi_version", "6")
	f.put("/dev/infiniband/uverbs3", "")
	f.put("/dev/infiniband/rdma_cm", "")
	const bit = "warning mlx5_0 port 1: initiators' srp_daemon does not look here: only the kernel can set a port's IsDeviceManagementSupported bit, " +
		"and no program -> give initiators the lines of srptctl connect-info, or of srptctl discover"
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used",
		"problem mlx5_0: the kernel has made no device file for it: ib_umad is not loaded -> modprobe ib_umad",
		"problem mlx5_0 port 1: it is INIT: no subnet manager has brought it up -> start a subnet manager, on a switch or here: systemctl start opensm",
		bit, "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.put("/sys/class/infiniband_mad/umad0/ibdev", "mlx5_0")
	f.mlx5("InfiniBand", "1: DOWN", "0x026d1e848")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used",
		"problem mlx5_0: /dev/infiniband/umad0 is missing -> modprobe ib_umad",
		"problem mlx5_0 port 1: it is DOWN -> look at the cable, and at the switch's port",
		bit, "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.put("/dev/infiniband/umad0", "")
	f.mlx5("InfiniBand", "4: ACTIVE", "0x00080000")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used", "ok mlx5_0: /dev/infiniband/umad0 can be used",
		"ok mlx5_0 port 1: active", "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.remove("/sys/class/infiniband/mlx5_0/ports/1/state")
	f.put("/sys/class/infiniband/mlx5_0/ports/1/cap_mask", "what")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used", "ok mlx5_0: /dev/infiniband/umad0 can be used",
		"not checked mlx5_0 port 1: its state cannot be read: open "+f.Root+"/sys/class/infiniband/mlx5_0/ports/1/state: no such file or directory",
		"ok rdma_cm: /dev/infiniband/rdma_cm can be used")
}
