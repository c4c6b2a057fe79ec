package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// release is the Debian release whose packages make the guest.
const release = "bookworm"

// hostPackages are what the build and the boot run on the host: a command to look for and the package that has it.
var hostPackages = []struct{ command, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"mke2fs", "e2fsprogs"},
	{"depmod", "kmod"},
	{"xz", "xz-utils"},
	{"gcc", "gcc"},
	{"make", "make"},
}

// guestPackages are unpacked, with all that they depend on, into the guest's root.
var guestPackages = []string{
	// The base: what a shell script needs.
	"base-files", "base-passwd", "bash", "busybox-static", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep",
	"gzip", "hostname", "jq", "libc-bin", "mount", "procps", "sed", "tar", "util-linux",
	// The kernel and what configures it.
	"linux-image-amd64", "kmod", "iproute2", "ethtool", "iputils-ping",
	// The fabric and the initiator's tools.
	"rdma-core", "libibumad3", "ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "sg3-utils", "lsscsi", "multipath-tools",
	"libiscsi-bin", "fio", "e2fsprogs", "xfsprogs",
	// What the blktests suite runs.
	"bc", "bsdextrautils", "dmsetup", "lsof", "psmisc", "udev",
	// What explains a failure.
	"strace", "tcpdump",
}

// guestModules are kept of the kernel's modules, with all that they depend on. Algorithms are named because the kernel asks
// for them by name at run time, which no dependency list tells.
var guestModules = []string{
	"crc32c_generic", "crc32c-intel", "crc32_generic", "crc32-pclmul", "crct10dif_common", "crct10dif_generic",
	"rdma_rxe", "siw", "ib_srp", "ib_srpt", "ib_umad", "ib_uverbs", "rdma_ucm",
	"target_core_mod", "target_core_file", "target_core_iblock",
	"sd_mod", "sg", "scsi_dh_alua", "dm_mod", "dm-multipath", "dm-round-robin", "dm-service-time", "dm-queue-length",
	"ext4", "xfs", "9p", "9pnet_virtio", "virtio_pci", "virtio_blk", "virtio_net", "null_blk", "loop", "nvme",
	"scsi_debug", "scsi_dh_emc", "scsi_dh_rdac", "ib_ipoib", "bfq", "kyber-iosched",
	"veth", "dummy", "ifb", "sch_netem", "sch_ingress", "sch_prio", "act_mirred", "cls_matchall", "cls_u32", "udp_diag",
}

// bootModules are loaded by the initial RAM disk, in dependency order, to reach the root image and the job directory.
var bootModules = []string{"virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "9p", "9pnet_virtio"}

// unwanted are left out of every package: nobody reads them in the guest.
var unwanted = []string{
	"./usr/share/doc", "./usr/share/man", "./usr/share/info", "./usr/share/locale", "./usr/share/i18n",
	"./usr/share/lintian", "./usr/share/bash-completion", "./usr/share/icons",
}

// recipe is all that decides what the guest looks like: this package's own source and its scripts.
//
//go:embed recipe.go debian.go image.go kernel.go initrd.go modules.go siw.go scripts
var recipe embed.FS

// recipeID is the hash of the recipe in 16 hexadecimal digits.
func recipeID() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(recipe, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := recipe.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n", path, len(b))
		h.Write(b)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("lab: hash the guest's recipe: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
