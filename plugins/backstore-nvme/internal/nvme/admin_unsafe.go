package nvme

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The size that the request number of NVME_IOCTL_ADMIN_CMD has in it, checked when the package is compiled.
var (
	_ [commandSize - unsafe.Sizeof(command{})]struct{}
	_ [unsafe.Sizeof(command{}) - commandSize]struct{}
)

// ioctlID asks the kernel for the number of the namespace of a block device.
func ioctlID(fd int) (uint32, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlNSID, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("NVME_IOCTL_ID", errno)
	}
	return uint32(n), nil
}

// ioctlAdmin gives the controller an admin command and waits until it has filled data.
func ioctlAdmin(fd int, c command, data []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	cmd := &c
	pin.Pin(cmd)
	c.addr, c.dataLen = uint64(uintptr(unsafe.Pointer(&data[0]))), uint32(len(data))
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlAdminCommand, uintptr(unsafe.Pointer(cmd)))
	if errno != 0 {
		return os.NewSyscallError("NVME_IOCTL_ADMIN_CMD", errno)
	}
	if status != 0 {
		return statusError(status)
	}
	return nil
}
