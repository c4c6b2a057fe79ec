package nvme

import "fmt"

// Numbers and layouts of <linux/nvme_ioctl.h>.
const (
	ioctlNSID         = 0x4e40     // NVME_IOCTL_ID, _IO('N', 0x40)
	ioctlAdminCommand = 0xc0484e41 // NVME_IOCTL_ADMIN_CMD, _IOWR('N', 0x41, 72 bytes)

	commandSize = 72
)

// command is struct nvme_admin_cmd. A timeout of 0 is the kernel's own.
type command struct {
	opcode, flags        uint8
	_                    uint16
	nsid                 uint32
	cdw2, cdw3           uint32
	metadata, addr       uint64
	metadataLen, dataLen uint32
	cdw10, cdw11, cdw12  uint32
	cdw13, cdw14, cdw15  uint32
	timeoutMS, result    uint32
}

// statusError is the status field of a command that the controller refused (NVM Express 1.4, clause 4.6.1): the code in bits 7:0,
// its type in bits 10:8.
type statusError uint16

func (s statusError) Error() string {
	return fmt.Sprintf("the controller answers status type %d, code %02xh", s>>8&7, uint8(s))
}
