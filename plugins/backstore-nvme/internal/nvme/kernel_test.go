package nvme

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree writes files below a new directory; one that ends in "/" is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestNamespaceIsFoundByWhatTheKernelShows(t *testing.T) {
	k := &kernel{dev: "/dev", sys: tree(t, map[string]string{
		"block/sda/device/serial":       "S1\n",
		"block/sda/nsid":                "1\n",
		"block/nvme0n1/device/serial":   "S1          \n",
		"block/nvme0n1/nsid":            "1\n",
		"block/nvme0n1/eui":             "00 25 38 b1 11 00 00 01\n",
		"block/nvme0n2/device/serial":   "S1\n",
		"block/nvme0n2/nsid":            "2\n",
		"block/nvme0n2/nguid":           "00010203-0405-0607-0809-0a0b0c0d0e0f\n",
		"block/nvme0c0n2/device/serial": "S1\n",
		"block/nvme0c0n2/nsid":          "2\n",
		"block/nvme1n1/device/serial":   "S2\n",
		"block/nvme1n1/nsid":            "1\n",
		"block/nvme2n1/device/serial":   "S2\n",
		"block/nvme2n1/nsid":            "1\n",
		"block/nvme3n1/":                "",
	})}
	tests := []struct {
		m    map[string]string
		want string
	}{
		{map[string]string{"serial": "S1", "nsid": "1"}, "/dev/nvme0n1"},
		{map[string]string{"serial": "S1", "nsid": "2"}, "/dev/nvme0n2"},
		{map[string]string{"eui": "002538B111000001"}, "/dev/nvme0n1"},
		{map[string]string{"nguid": "000102030405060708090a0b0c0d0e0f"}, "/dev/nvme0n2"},
		{map[string]string{"device": "/dev/disk/by-id/x", "serial": "S1"}, "/dev/disk/by-id/x"},
		{map[string]string{"serial": "S1", "nsid": "3"}, "error: no NVMe namespace of this machine has serial S1, nsid 3"},
		{map[string]string{"eui": "002538b111000001", "nsid": "2"}, "error: no NVMe namespace"},
		{map[string]string{"serial": "S2", "nsid": "1"}, "error: /dev/nvme1n1, /dev/nvme2n1 have serial S2, nsid 1; name one with device"},
	}
	for _, tt := range tests {
		c, err := parseConfig(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.locate(c)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || err == nil && got != tt.want {
			t.Errorf("%v: %s, want %s", tt.m, got, tt.want)
		}
	}
	if _, err := (&kernel{sys: "/nowhere"}).locate(config{want: identity{nsid: 1}}); err == nil || !strings.Contains(err.Error(), "/nowhere/block") {
		t.Errorf("no sysfs: %v", err)
	}
}

func TestUserOfADeviceIsNamed(t *testing.T) {
	const mountinfo = "22 1 259:2 / /boot rw,relatime shared:1 - ext4 /dev/root rw\n23 1 0:30 / /data rw - btrfs %s rw\nshort\n"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nobody", nil, ""},
		{"a mounted partition", map[string]string{"sys/dev/block/259:0/nvme0n1p1/dev": "259:2\n"}, "nvme0n1p1 is mounted on /boot; unmount it first"},
		{"a mount of a file system with a number of its own", map[string]string{"mounted": "259:0"}, "is mounted on /data"},
		{"swap", map[string]string{"swap": "259:0"}, "is in use as swap; swapoff it first"},
		{"a part of another device", map[string]string{"sys/dev/block/259:0/holders/dm-3/x": ""}, "259:0 is a part of dm-3"},
		{"a partition that is", map[string]string{"sys/dev/block/259:0/nvme0n1p1/holders/md0/x": ""}, "nvme0n1p1 is a part of md0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{
				"sys/dev/block/259:0/dev": "259:0\n", "sys/dev/block/259:0/nvme0n1p1/partition": "1\n", "proc/swaps": "Filename Type\n", "dev/": "",
				"sys/dev/block/259:0/queue/x": "",
			}
			for name, body := range tt.files {
				files[name] = body
			}
			root := tree(t, files)
			k := &kernel{sys: root + "/sys", proc: root + "/proc", dev: root + "/dev"}
			write := func(name, body string) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(body), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/self/mountinfo", "21 1 0:1 / / rw - tmpfs tmpfs rw\n")
			write("proc/1/mountinfo", strings.ReplaceAll(mountinfo, "%s", root+"/dev/"+files["mounted"]))
			if s := files["swap"]; s != "" {
				write("proc/swaps", "Filename Type\n"+root+"/dev/"+s+" partition 1 2\n")
			}
			got := k.user(unix.Mkdev(259, 0))
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestQueueIsReadFromSysfs(t *testing.T) {
	k := &kernel{sys: tree(t, map[string]string{
		"dev/block/259:0/queue/max_sectors_kb": "1280\n", "dev/block/259:0/queue/write_cache": "write back\n",
		"dev/block/259:1/queue/max_sectors_kb": "512\n", "dev/block/259:1/queue/write_cache": "write through\n",
		"dev/block/259:2/queue/max_sectors_kb": "many\n",
		"dev/block/259:3/queue/max_sectors_kb": "4\n",
	})}
	for minor, want := range []queue{{1280 << 10, true}, {512 << 10, false}} {
		if got, err := k.queue(unix.Mkdev(259, uint32(minor))); err != nil || got != want {
			t.Errorf("%d: %+v, %v, want %+v", minor, got, err, want)
		}
	}
	for minor, want := range map[uint32]string{2: "max_sectors_kb", 3: "write_cache", 4: "max_sectors_kb"} {
		if _, err := k.queue(unix.Mkdev(259, minor)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %s", minor, err, want)
		}
	}
}
