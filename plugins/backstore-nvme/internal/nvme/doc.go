// Package nvme is the backstore on a whole NVMe namespace, through its block device with direct I/O. What it is and what it can
// do is asked of the controller.
//
// # Settings
//
//	device     the namespace's block device, as /dev/nvme0n1 or /dev/disk/by-id/nvme-...
//	nguid      the namespace's NGUID, 32 hexadecimal digits
//	eui        the namespace's EUI-64, 16 hexadecimal digits
//	serial     the controller's serial number
//	nsid       the namespace's number, as 1
//	read_only  true or false (default)
//	engine     auto (default): io_uring if the kernel has it; io_uring: refuse to open otherwise; pool
//
// Either device, or nguid, or eui, or serial with nsid must be there. Without device the namespace is looked for in what the
// kernel shows in /sys/block, and exactly one must fit. Every identity that is set is compared with what the controller
// answers, with device as well: a device that has got another's name at the last boot is not opened. Hexadecimal digits may
// stand in either letter case, with "-", ":", "." or spaces between them.
//
// # What is refused
//
// A namespace that is mounted, swapped to, part of another device (LVM, RAID, multipath by device mapper) or opened exclusively by
// anybody: it is opened with O_EXCL. One that has metadata, or blocks of neither 512 nor 4096 bytes: the error says how to
// format it. A partition, a zoned or key-value namespace. A device that is no NVMe namespace: that is for backstore-file.
//
// # Rights
//
// Opening the device for reading and writing, and CAP_SYS_ADMIN: the controller's Identify and Get Log Page commands need it.
package nvme
