package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine is the shape of the virtual machine. The zero value is a good one: two CPUs, 3 GiB, real time.
type Machine struct {
	CPUs      int // 0 means 2
	MemoryMiB int // 0 means 3072
	// InstructionShift, if not 0, makes the guest's clock count instructions, one every 2^InstructionShift ns: what is
	// measured then does not depend on the host's load. It needs CPUs to be 1.
	InstructionShift int
	// DisksMiB adds an empty disk of each size, /dev/vdb first; they end with the machine.
	DisksMiB []int
	// NVMeMiB, if not 0, adds an NVMe controller with the serial number NVMeSerial and one empty namespace of that size:
	// /dev/nvme0n1, once the guest has loaded its driver. It ends with the machine.
	NVMeMiB int
	// WiredPairs adds pairs of network cards whose two ends are wired to each other: those with the MAC addresses CardMAC(pair, 0) and
	// CardMAC(pair, 1), once the guest has loaded virtio_net. The guest may unplug and replug them as PCI devices.
	WiredPairs int
}

// CardMAC is the MAC address of an end of a pair of cards.
func CardMAC(pair, end int) string { return fmt.Sprintf("02:67:6f:73:%02x:%02x", 0x80+pair, end) }

// NVMeSerial is the serial number of the machine's NVMe controller.
const NVMeSerial = "gosrptnvme"

// ErrNoStatus reports a machine that stopped, or was stopped, before its job had ended.
var ErrNoStatus = errors.New("the job did not end")

// Run boots the guest, runs job.sh of jobDir in it and returns the job's exit status. The guest sees jobDir as /job; the
// variables of env, and LAB_TIMEOUT, the seconds until ctx's deadline less some to collect logs, are in the job's
// environment. The console goes to console as it comes. When ctx ends the machine is killed. A shell's status 124 means
// that the job was stopped by LAB_TIMEOUT.
func (g *Guest) Run(ctx context.Context, m Machine, jobDir string, env map[string]string, console io.Writer) (int, error) {
	if err := os.MkdirAll(filepath.Join(jobDir, "out"), 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(jobDir, "environment"), environment(ctx, env), 0o644); err != nil {
		return 0, err
	}
	sizes := m.DisksMiB
	if m.NVMeMiB != 0 {
		sizes = append(slices.Clone(sizes), m.NVMeMiB)
	}
	disks, remove, err := makeDisks(sizes)
	if err != nil {
		return 0, err
	}
	defer remove()
	runErr := runKilled(ctx, "qemu-system-x86_64", g.arguments(m, jobDir, disks), console)
	b, err := os.ReadFile(filepath.Join(jobDir, "out/.status"))
	if err != nil {
		return 0, fmt.Errorf("lab: %w: %w", ErrNoStatus, errors.Join(context.Cause(ctx), runErr))
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// runKilled runs a command that is killed when ctx ends or this process dies. The thread is locked because the kernel
// watches the parent's thread, not its process.
func runKilled(ctx context.Context, name string, args []string, console io.Writer) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// environment is a shell script that exports env and the time that is left.
func environment(ctx context.Context, env map[string]string) []byte {
	var b strings.Builder
	for k, v := range env {
		fmt.Fprintf(&b, "export %s='%s'\n", k, strings.ReplaceAll(v, "'", `'\''`))
	}
	if at, ok := ctx.Deadline(); ok {
		left := time.Until(at)
		fmt.Fprintf(&b, "export LAB_TIMEOUT=%d\n", int((left - min(left/4, 40*time.Second)).Seconds()))
	}
	return []byte(b.String())
}

func makeDisks(sizes []int) (files []string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "gosrpt-disks-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	for i, mib := range sizes {
		name := filepath.Join(dir, fmt.Sprintf("disk%d.raw", i))
		err := writeFile(name, 0o600, func(w io.Writer) error { return w.(*os.File).Truncate(int64(mib) << 20) })
		if err != nil {
			remove()
			return nil, nil, err
		}
		files = append(files, name)
	}
	return files, remove, nil
}

// kernelArguments spare what an emulated CPU makes slow and a test has no use for. A kernel that fails stops the machine.
const kernelArguments = "console=ttyS0 quiet loglevel=3 mitigations=off nokaslr tsc=reliable no_timer_check net.ifnames=0 " +
	"nowatchdog audit=0 cryptomgr.notests oops=panic panic=-1"

// arguments are QEMU's. Of disks, those of DisksMiB come first, then the NVMe namespace's.
func (g *Guest) arguments(m Machine, jobDir string, disks []string) []string {
	cpus, memory := m.CPUs, m.MemoryMiB
	if cpus == 0 {
		cpus = 2
	}
	if memory == 0 {
		memory = 3072
	}
	args := []string{
		"-M", "q35,usb=off,smbus=off", "-vga", "none",
		"-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
		"-kernel", g.file(kernelFile), "-initrd", g.file(initrdFile), "-append", kernelArguments,
		"-fsdev", "local,id=job,path=" + jobDir + ",security_model=none,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=job,mount_tag=job",
	}
	args = append(args, m.accelerator()...)
	args = append(args, m.cards()...)
	args = append(args, drive("root", g.file(rootFile), "snapshot=on")...)
	if m.NVMeMiB != 0 {
		last := len(disks) - 1
		args = append(args, media("nvme", disks[last], "discard=unmap")...)
		args = append(args, "-device", "nvme,serial="+NVMeSerial+",drive=nvme")
		disks = disks[:last]
	}
	for i, d := range disks {
		args = append(args, drive("disk"+strconv.Itoa(i), d, "discard=unmap")...)
	}
	return args
}

// accelerator: in real time the carry-less multiplication is left out, for emulating it takes longer than the tables that
// both the kernel and Go then compute their CRCs with. Counted in instructions it is what a real CPU has.
func (m Machine) accelerator() []string {
	if m.InstructionShift == 0 {
		return []string{"-cpu", "max,pclmulqdq=off", "-accel", "tcg,thread=multi,tb-size=1024"}
	}
	return []string{
		"-cpu", "max", "-accel", "tcg,thread=single,tb-size=1024", "-icount", "shift=" + strconv.Itoa(m.InstructionShift),
	}
}

// cards: a hub for each pair is the cable. Their boot ROM is left out.
func (m Machine) cards() (args []string) {
	// Without an event index the guest tells of every receive buffer that it adds: QEMU 7.2 may wait for ever for the one that would
	// satisfy a long packet, and the wire is dead in that direction.
	for pair := range m.WiredPairs {
		for end := range 2 {
			id := fmt.Sprintf("card%d-%d", pair, end)
			args = append(args, "-netdev", fmt.Sprintf("hubport,id=%s,hubid=%d", id, pair),
				"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,romfile=,event_idx=off,rx_queue_size=1024", id, CardMAC(pair, end)))
		}
	}
	return args
}

func drive(id, file, option string) []string {
	return append(media(id, file, option), "-device", "virtio-blk-pci,drive="+id+",num-queues=1")
}

func media(id, file, option string) []string {
	return []string{"-drive", "id=" + id + ",file=" + file + ",if=none,format=raw,cache=unsafe,aio=threads," + option}
}
