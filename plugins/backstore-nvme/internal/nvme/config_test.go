package nvme

import (
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
)

func TestSettingsAreRead(t *testing.T) {
	tests := []struct {
		name string
		m    map[string]string
		want config
	}{
		{"device", map[string]string{"device": "/dev/nvme0n1"}, config{device: "/dev/nvme0n1", engine: descriptor.Auto}},
		{"all", map[string]string{"device": "/d", "eui": "52-54:00.00 0000 00 0A", "nguid": strings.Repeat("aB", 16), "serial": " S 1 ",
			"nsid": "7", "read_only": "true", "engine": "pool"},
			config{device: "/d", readOnly: true, engine: descriptor.Pool, want: identity{serial: "S 1", nsid: 7,
				eui: [8]byte{0x52, 0x54, 0, 0, 0, 0, 0, 10}, nguid: [16]byte([]byte(strings.Repeat("\xab", 16)))}}},
		{"serial and nsid", map[string]string{"serial": "S", "nsid": "4294967294"},
			config{engine: descriptor.Auto, want: identity{serial: "S", nsid: 4294967294}}},
	}
	for _, tt := range tests {
		if got, err := parseConfig(tt.m); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestWrongSettingIsNamed(t *testing.T) {
	with := func(key, value string) map[string]string {
		return map[string]string{"device": "/dev/nvme0n1", key: value}
	}
	tests := []struct {
		m    map[string]string
		want string
	}{
		{nil, "device: not set"},
		{map[string]string{"read_only": "true"}, "device: not set"},
		{map[string]string{"serial": "S"}, "nsid: not set"},
		{map[string]string{"nsid": "1"}, "device: not set"},
		{with("device", "nvme0n1"), "device: \"nvme0n1\" is no absolute path"},
		{with("eui", "12"), "eui: \"12\" has not 16 hexadecimal digits"},
		{with("eui", "0011223344556677889"), "eui: "},
		{with("nguid", "zz"), "nguid: \"zz\" has not 32 hexadecimal digits"},
		{with("nguid", strings.Repeat("0", 32)), "zero"},
		{with("serial", "  "), "serial: is empty"},
		{with("nsid", "0"), "nsid: 0 is no namespace's number"},
		{with("nsid", "4294967295"), "nsid: 4294967295 is no namespace's number"},
		{with("nsid", "-1"), "nsid: "},
		{with("engine", "warp"), "engine: \"warp\" is none of auto, io_uring, pool"},
		{with("read_only", "perhaps"), "read_only: "},
		{with("color", "red"), "color: no such setting"},
	}
	for _, tt := range tests {
		if _, err := parseConfig(tt.m); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.m, err, tt.want)
		}
	}
}
