package lab

import (
	"slices"
	"testing"
)

const modulesDep = `kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko:
kernel/drivers/md/dm-mod.ko.xz: kernel/lib/crc16.ko
`

func TestClosureLoadsDependenciesFirstAndOnce(t *testing.T) {
	tests := []struct {
		names, want []string
	}{
		{[]string{"crc16"}, []string{"kernel/lib/crc16.ko"}},
		{[]string{"ext4"}, []string{"kernel/lib/crc16.ko", "kernel/fs/jbd2/jbd2.ko", "kernel/fs/ext4/ext4.ko"}},
		{[]string{"dm_mod", "crc16"}, []string{"kernel/lib/crc16.ko", "kernel/drivers/md/dm-mod.ko.xz"}},
		{[]string{"dm-mod", "dm_mod"}, []string{"kernel/lib/crc16.ko", "kernel/drivers/md/dm-mod.ko.xz"}},
		{nil, nil},
	}
	for _, tt := range tests {
		got, err := parseModules(modulesDep).closure(tt.names)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("closure(%v) = %v, %v, want %v", tt.names, got, err, tt.want)
		}
	}
}

func TestClosureNamesTheModuleThatIsNotThere(t *testing.T) {
	if got, err := parseModules(modulesDep).closure([]string{"ext4", "siw"}); err == nil {
		t.Errorf("closure = %v, want an error", got)
	}
}
